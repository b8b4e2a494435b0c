"""A scheduled job is moved to its queue by either side."""

from __future__ import annotations

import time

import pytest

from tests.interop.waiting import eventually

pytestmark = pytest.mark.needs("redis-server")


def test_our_scheduler_moves_scheduled_and_failed_jobs_of_ruby(processes, ruby, raw_redis, seen) -> None:
    """Ruby schedules and no Ruby process runs: only ours can move."""
    ruby("class HardJob; include Sidekiq::Job; sidekiq_options queue: 'python'; end")
    jid = ruby("HardJob.perform_in(0.5, 'later')")
    retry = ruby("HardJob.perform_in(600, 'a retry')")
    member = next(raw for raw in raw_redis.zrange("schedule", 0, -1) if retry.encode() in raw)
    raw_redis.zrem("schedule", member)
    raw_redis.zadd("retry", {member: time.time()})

    worker = processes.offsider("-q", "python", "-c", "1")

    assert eventually(lambda: seen(jid), "the scheduled job") == [["python", ["later"], None]]
    assert eventually(lambda: seen(retry), "the retry") == [["python", ["a retry"], None]]
    worker.terminate()
    assert worker.wait(30) == 0


def test_the_ruby_poller_moves_our_scheduled_jobs(processes, client, raw_redis, seen) -> None:
    """No worker of ours runs: only Ruby can move."""
    jid = client.push({"class": "RubyEcho", "args": ["later", 2**70], "queue": "ruby", "at": 0.5})
    far = client.push({"class": "RubyEcho", "args": ["far"], "queue": "ruby", "at": 600})
    deepest: object = None
    for _ in range(98):  # which Ruby's JSON still reads
        deepest = [deepest]
    deep = client.push({"class": "RubyEcho", "args": [deepest], "queue": "ruby", "at": 0.5})

    processes.sidekiq("-q", "ruby", "-c", "1")

    assert eventually(lambda: seen(jid), "the scheduled job") == [["ruby", ["later", 2**70], None]]
    assert eventually(lambda: seen(deep), "the nested job") == [["ruby", [deepest], None]]
    assert [raw for raw in raw_redis.zrange("schedule", 0, -1) if far.encode() in raw], "not due, so not moved"
