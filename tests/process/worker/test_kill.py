"""kill -9: the jobs of the dead run again, and none is lost."""

from __future__ import annotations

import time

from tests.process.stored import private, push, sorted_set, waiting
from tests.waiting import wait_for

FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}


def test_the_jobs_of_a_killed_worker_run_again_in_another_within_two_liveness_periods(workers, stored, ledger):
    blocked = [push(stored, "Receiving"), push(stored, "Locked")]
    liveness_seconds = 12.0  # the slack of two periods, which a slow machine needs, grows with them
    environ = {"OFFSIDER_WORKER_LIVENESS_SECONDS": str(liveness_seconds)}
    doomed = workers.start("-c", "2", environ=environ)
    wait_for(lambda: len(ledger.notes("start")) == 2)
    survivor = workers.start("-c", "2", environ=environ)
    before = time.monotonic()
    doomed.kill()
    wait_for(lambda: len(ledger.notes("end")) == 2, 60)
    assert time.monotonic() - before < 2 * liveness_seconds

    survivor.until_says(f"{doomed.identity} is dead; requeued its 2 jobs")  # after the events about them
    assert sorted(ledger.words("start")) == ["0", "0", "1", "1"]
    assert {item.pid for item in ledger.notes("end")} == {survivor.pid}
    assert ledger.words("reclaimed") == [f"{doomed.identity} 1"] * 2
    assert set(ledger.counts("end")) == set(blocked)
    survivor.stopped()
    assert private(stored) == waiting(stored) == sorted_set(stored, "retry") == []


def test_a_woken_worker_writes_nothing_about_jobs_that_ran_elsewhere(workers, stored, ledger):
    """Stopped past its life, its jobs run by another, and woken: fenced (rules 2 and 4)."""
    push(stored, "Held", True)
    push(stored, "Held")
    stored.zadd("schedule", {b'{"class":"Nobody","args":[],"jid":"far","queue":"far"}': time.time() + 1000})
    frozen = workers.start("-c", "2", environ=FAST)
    wait_for(lambda: len(ledger.notes("start")) == 2)
    frozen.send("STOP")
    (workers.folder / "go").touch()
    other = workers.start("-c", "2", environ=FAST)
    wait_for(lambda: len(ledger.notes("end", pid=other.pid)) == 1)
    wait_for(lambda: len(sorted_set(stored, "retry")) == 1)
    other.stopped()

    frozen.send("CONT")
    printed = frozen.until_says("lost ownership", times=2)
    assert f"{frozen.identity} sent no heartbeat" in frozen.until_says(
        "sent no heartbeat in time and was declared dead"
    )
    wait_for(lambda: sorted(ledger.words("lost ownership")) == ["failed", "succeeded"])
    assert "the outcome of this run (failed) is not stored" in printed
    (retry,) = sorted_set(stored, "retry")
    assert (retry["retry_count"], retry["interrupted_count"]) == (0, 1)
    assert waiting(stored) == private(stored) == []

    after = push(stored, "Short", 3)
    wait_for(lambda: ledger.notes("end", jid=after, pid=frozen.pid))
    renewed = wait_for(lambda: [name for name in stored.hkeys("offsider:owners") if name != frozen.identity.encode()])
    assert renewed[0].decode().split(":")[:2] == frozen.identity.split(":")[:2]
    wait_for(lambda: stored.sismember("processes", renewed[0]))
    frozen.stopped()
    assert len(sorted_set(stored, "retry")) == 1
    assert waiting(stored) == private(stored) == []
