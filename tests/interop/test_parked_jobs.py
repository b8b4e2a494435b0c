"""A queue that Ruby serves is never judged, since Ruby does not tell what it can run; what is parked, Ruby sees."""

from __future__ import annotations

import json
import signal

import pytest

from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("redis-server"), pytest.mark.needs("sidekiq")]


def test_while_ruby_serves_the_queue_an_unknown_job_fails_and_is_retried_as_ever(client, raw_redis, processes, ruby):
    sidekiq = processes.sidekiq("-q", "shared")
    wait_for(lambda: "shared" in ruby("Sidekiq::ProcessSet.new.flat_map { |process| process['queues'] }"), 30)
    sidekiq.send_signal(signal.SIGTSTP)  # it is quiet: it serves the queue, and leaves this job to ours
    wait_for(lambda: raw_redis.info("clients")["blocked_clients"] == 0, 30)
    jid = client.push({"class": "Unknown", "args": [], "queue": "shared"})
    processes.offsider("-q", "shared")
    wait_for(lambda: [json.loads(raw)["jid"] for raw in raw_redis.zrange("retry", 0, -1)] == [jid], 30)
    assert ruby("Sidekiq::RetrySet.new.first['error_class']").endswith("UnknownJob")


def test_what_no_worker_of_ours_knows_waits_in_the_schedule_where_ruby_sees_it(client, raw_redis, processes, ruby):
    processes.offsider("-q", "alone")
    jid = client.push({"class": "Unknown", "args": [], "queue": "alone"})
    wait_for(lambda: ruby("Sidekiq::ScheduledSet.new.map(&:jid)") == [jid], 30)
    assert jid not in ruby("Sidekiq::RetrySet.new.map(&:jid)")
    assert ruby("Sidekiq::ScheduledSet.new.first.queue") == "alone"
