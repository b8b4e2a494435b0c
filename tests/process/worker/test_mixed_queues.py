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
    for _ in range(2):
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
