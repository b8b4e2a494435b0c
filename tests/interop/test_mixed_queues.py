"""A queue shared by Ruby and Python: each side gets its own jobs with any ``retry`` option."""

from __future__ import annotations

import pytest

from tests.interop.waiting import eventually

pytestmark = [pytest.mark.needs("redis-server"), pytest.mark.needs("sidekiq")]

JOBS = 100
PUSH = """
Sidekiq::Client.push_bulk("class" => "RubySleep", "queue" => "mixed", "retry" => tries, "args" => [[0.01]] * count)
"""


def test_ruby_jobs_on_a_mixed_queue_all_run_in_ruby_and_none_vanishes_or_dies(raw_redis, processes, ruby, seen):
    processes.sidekiq("-q", "mixed", "-c", "2")
    processes.offsider("-q", "mixed", "-c", "5")
    eventually(lambda: len(ruby("Sidekiq::ProcessSet.new.map { |process| process['queues'] }")) == 2, "both processes")

    every: list[str] = []

    def python_had_some():
        every.extend(jid for tries in (False, 0, 1, True) for jid in ruby(PUSH, tries=tries, count=JOBS))
        eventually(lambda: all(raw_redis.exists(f"seen:{jid}") for jid in every), "every job of Ruby to have run", 120)
        return len([*raw_redis.scan_iter("offsider:handed-on:*", count=1000)]) >= JOBS / 10

    eventually(python_had_some, "jobs that Python has taken, or the test shows nothing")
    assert len(every) == len(set(every))
    assert {jid: [run[0] for run in seen(jid)] for jid in every} == {jid: ["ruby"] for jid in every}
    assert [raw_redis.zcard(name) for name in ("schedule", "retry", "dead")] == [0, 0, 0]
