"""Ruby prunes the dead from a registry that is not the one our jobs depend on."""

from __future__ import annotations

import os
import signal

import pytest

from tests.interop.waiting import eventually, worker_of
from tests.process.workers import group_of

pytestmark = pytest.mark.needs("redis-server")

LISTED = "Sidekiq::ProcessSet.new(false).to_h { |process| [process['pid'].to_s, process.identity] }"
CLEAN_UP = "Sidekiq.redis { |c| c.del('process_cleanup') }; Sidekiq::ProcessSet.new(false).cleanup"


def test_jobs_of_a_killed_process_are_requeued_even_if_ruby_pruned_it_first(processes, client, ruby, raw_redis) -> None:
    def listed(pid: int) -> str:
        return eventually(lambda: ruby(LISTED).get(str(pid)), f"process {pid} in Ruby's ProcessSet")

    doomed = processes.offsider("-q", "doomed", "-c", "1")
    client.push({"class": "WaitsForRelease", "args": [], "queue": "doomed"})
    eventually(lambda: raw_redis.lrange("interrupted_counts", 0, -1) == [b"0"], "the first run")
    dead = listed(worker_of(doomed))
    alive = listed(worker_of(processes.offsider("-q", "doomed", "-c", "1")))

    os.killpg(doomed.pid, signal.SIGKILL)  # with its parent, which would remove it from the registry
    doomed.wait()
    eventually(lambda: not group_of(doomed.pid), "the end of all its processes")
    raw_redis.delete(dead)  # as if a minute had passed: Ruby knows the dead by their expired hash
    assert ruby(CLEAN_UP) == 1

    assert raw_redis.smembers("processes") == {alive.encode()}
    eventually(lambda: raw_redis.lrange("interrupted_counts", 0, -1) == [b"0", b"1"], "the second run")
    eventually(lambda: not list(raw_redis.scan_iter("offsider:working:*")), "the private lists to be empty")
    assert raw_redis.llen("queue:doomed") == 0
