"""Jobs that reschedule themselves: as often as their limit allows, then they fail as any other job."""

from __future__ import annotations

from tests.process.stored import push, sorted_set
from tests.waiting import wait_for

JOBS = """
    import time
    from datetime import timedelta
    from offsider import Reschedule, current_job, job
    from tests.process.ledger import note

    @job(name="Waits", retry_in=lambda *_: timedelta(seconds=1))
    def waits() -> None:
        note("start", current_job().jid, current_job().rescheduled_count)
        raise Reschedule(0, limit=5)

    @job(name="Arrives")
    def arrives() -> None:
        if current_job().rescheduled_count < 3:
            raise Reschedule(0)
        note("end")

    @job(name="Saves")
    def saves() -> None:
        run = current_job()
        note("start", run.jid, run.rescheduled_count)
        while not run.stopping:
            time.sleep(0.01)
        raise Reschedule(0, limit=1)
"""


def test_a_job_fails_after_its_limit_and_dies_when_its_retries_are_used_up(workers, stored, ledger):
    jid = push(stored, "Waits", retry=1)
    workers.start(text=JOBS)
    (retried,) = wait_for(lambda: sorted_set(stored, "retry"))
    assert retried["error_class"] == "offsider.core.errors.TooManyReschedules"
    assert ledger.words("start") == ["0", "1", "2", "3", "4", "5"]
    wait_for(lambda: sorted_set(stored, "dead"), 30)
    (dead,) = sorted_set(stored, "dead")
    assert (dead["jid"], dead["rescheduled_count"], dead["retry_count"]) == (jid, 5, 1)
    assert len(ledger.words("start")) == 7


def test_a_job_that_ends_within_the_limit_is_done(workers, stored, ledger):
    push(stored, "Arrives")
    workers.start(text=JOBS)
    wait_for(lambda: ledger.notes("end"))
    assert sorted_set(stored, "retry") == sorted_set(stored, "dead") == []


def test_deploys_use_up_nothing_of_the_limit(workers, stored, ledger):
    push(stored, "Saves")
    for runs in (1, 2, 3):
        worker = workers.start(text=JOBS)
        wait_for(lambda runs=runs: len(ledger.words("start")) == runs, 60)
        worker.stopped()
    assert ledger.words("start") == ["0", "0", "0"]
    assert sorted_set(stored, "retry") == []
