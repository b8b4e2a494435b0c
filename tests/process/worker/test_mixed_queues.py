"""A queue that a Ruby process serves as well: its jobs are handed back to it, and kill -9 loses none."""

from __future__ import annotations

import json
import time

import pytest

from tests.process.stored import private, push, sorted_set, waiting
from tests.waiting import wait_for

RUBY = "ruby-host:1:aaaaaaaaaaaa"
APP = """
    from offsider import job
    from tests.process.ledger import note

    @job(name="Ours", retry=False)
    def ours():
        note("ours")
"""


@pytest.fixture
def ruby(stored) -> str:
    """A process of Ruby as it shows itself; it takes jobs when the test does."""
    stored.sadd("processes", RUBY)
    stored.hset(RUBY, mapping={"info": json.dumps({"queues": ["default"]}), "busy": 0, "beat": 1, "quiet": "false"})
    return RUBY


def everywhere(stored) -> set[str]:
    """The jids of all jobs in any place."""
    sets = [found["jid"] for name in ("schedule", "retry", "dead") for found in sorted_set(stored, name)]
    return {*sets, *(found["jid"] for found in waiting(stored)), *(json.loads(raw)["jid"] for raw in private(stored))}


def test_jobs_of_ruby_survive_kills_of_the_worker_that_hands_them_back(workers, stored, ruby):
    tries = [False, 0, 1, True]
    theirs = {push(stored, "Ruby::Job", number, retry=tries[number % 4]) for number in range(60)}
    app = workers.write(APP)
    for _ in range(4):
        worker = workers.start("-c", "3", app=app)
        handed_on = wait_for(lambda: stored.keys("offsider:handed-on:*"))
        stored.delete(*handed_on)
        time.sleep(0.3)
        worker.kill()
        wait_for(lambda: theirs == everywhere(stored))  # its parent moves them in between
    worker = workers.start("-c", "3", app=app)
    taken: list[dict[str, object]] = []
    deadline = time.monotonic() + 30
    while len(taken) < len(theirs) and time.monotonic() < deadline:  # as a thread of Ruby takes them
        found = stored.brpop("queue:default", 0.2)
        taken += [json.loads(found[1])] if found else []
    worker.kill()
    jids = {found["jid"] for found in taken}
    assert len(jids) == len(taken) > len(theirs) / 2
    # On a busy machine the worker takes some of them so often that they wait in the schedule, longer each time.
    wait_for(lambda: everywhere(stored) == theirs - jids)
    assert all("retry_count" not in found and "error_class" not in found for found in taken)
    assert (stored.zcard("retry"), stored.zcard("dead")) == (0, 0)


def test_jobs_that_ruby_leaves_are_handed_back_five_times_and_block_no_others(workers, stored, ledger, ruby):
    theirs = {push(stored, "Ruby::Job", number, retry=False) for number in range(30)}
    worker = workers.start("-c", "2", app=workers.write(APP))
    for _ in range(50):
        push(stored, "Ours", retry=False)
    wait_for(lambda: len(ledger.notes("ours")) == 50, 20.0)

    def tries() -> list[int]:
        return [int(stored.get(key)) for key in stored.scan_iter("offsider:handed-on:*", count=1000)]

    wait_for(lambda: len(tries()) == 30 and min(tries()) > 5, 60.0)
    assert "no other worker ran it in time" not in worker.output
    for key in stored.scan_iter("offsider:handed-on:*", count=1000):
        stored.expire(key, 3600 - 61)  # a minute has passed
    stored.zadd("schedule", dict.fromkeys(stored.zrange("schedule", 0, -1), 1.0), xx=True)
    wait_for(lambda: sum("stranded_at" in found for found in sorted_set(stored, "schedule")) == 30, 60.0)
    worker.until_says("no other worker ran it in time")
    worker.kill()  # a job that moves while one place after the other is read would be missed
    assert everywhere(stored) == theirs
    assert (stored.zcard("retry"), stored.zcard("dead")) == (0, 0)
    assert sum(tries()) <= 30 * 15
