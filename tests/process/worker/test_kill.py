"""kill -9: the jobs of the dead run again, and none is lost."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from tests.process.stored import private, push, push_raw, sorted_set, waiting
from tests.waiting import wait_for

FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}


def test_the_jobs_of_a_killed_worker_run_again_in_another(workers, stored, ledger):
    blocked = [push(stored, "Receiving"), push(stored, "Locked")]
    doomed = workers.start("-c", "2", environ=FAST)
    wait_for(lambda: len(ledger.notes("start")) == 2)
    survivor = workers.start("-c", "2", environ=FAST)
    doomed.kill()
    wait_for(lambda: len(ledger.notes("end")) == 2, 30)

    assert sorted(ledger.words("start")) == ["0", "0", "1", "1"]
    assert {item.pid for item in ledger.notes("end")} == {survivor.pid}
    assert ledger.words("reclaimed") == [f"{doomed.identity} 1"] * 2
    assert set(ledger.counts("end")) == set(blocked)
    survivor.until_says(f"{doomed.identity} is dead; requeued its 2 jobs")
    survivor.stopped()
    assert private(stored) == waiting(stored) == sorted_set(stored, "retry") == []


def test_a_job_interrupted_twice_records_both(workers, stored, ledger):
    """Nobody else is alive at the time of the death: the next worker finds the job."""
    push(stored, "Blocking")
    app = """
        import time
        from offsider import current_job, job
        from tests.process import jobs
        from tests.process.ledger import note

        def configure(config):
            jobs.configure(config)

        @job(name="Blocking")
        def blocking():
            count = current_job().interrupted_count
            note("begun", word=count)
            if count < 2:
                time.sleep(60)
            note("survived", word=count)
    """
    for count in range(2):
        worker = workers.start("-c", "1", text=app, environ=FAST)
        wait_for(lambda count=count: str(count) in ledger.words("begun"), 30)
        worker.kill()
    workers.start("-c", "1", text=app, environ=FAST)
    wait_for(lambda: ledger.words("survived") == ["2"], 30)


def test_killing_several_of_several_workers_loses_no_job(workers, stored, ledger):
    jids = {push(stored, "Short", number, 0.03) for number in range(500)}
    concurrency = 4
    fleet = [workers.start("-c", str(concurrency), environ=FAST, wait=False) for _ in range(4)]
    for number, victim in enumerate(fleet[:3], start=1):
        wait_for(lambda number=number: len(ledger.counts("end")) > 90 * number, 60)
        victim.kill()
    fleet.append(workers.start("-c", str(concurrency), environ=FAST, wait=False))
    wait_for(lambda: set(ledger.counts("end")) == jids, 90, "every job has ended")

    duplicates = sum(ledger.counts("end").values()) - len(jids)
    assert duplicates <= 3 * concurrency
    for worker in fleet[3:]:
        worker.stopped()
    assert waiting(stored) == private(stored) == sorted_set(stored, "retry") == sorted_set(stored, "dead") == []


@pytest.mark.timeout(170)
def test_with_default_settings_the_jobs_of_a_killed_worker_run_again_within_90_seconds(workers, stored, ledger):
    push(stored, "Receiving")
    doomed = workers.start("-c", "1")
    wait_for(lambda: ledger.notes("start"))
    workers.start("-c", "1")
    before = time.monotonic()
    doomed.kill()
    wait_for(lambda: ledger.notes("end"), 120)
    assert time.monotonic() - before < 90


def test_a_pruned_process_entry_does_not_hide_the_jobs_of_the_dead(workers, stored, ledger):
    """Any Ruby process prunes entries of `processes` without a heartbeat."""
    push(stored, "Receiving")
    doomed = workers.start("-c", "1", environ=FAST)
    wait_for(lambda: ledger.notes("start"))
    wait_for(lambda: stored.sismember("processes", doomed.identity))
    doomed.kill()
    stored.srem("processes", doomed.identity)
    stored.delete(doomed.identity)
    workers.start("-c", "1", environ=FAST)
    wait_for(lambda: ledger.notes("end"), 30)


def test_a_woken_worker_writes_nothing_about_jobs_that_ran_elsewhere(workers, stored, ledger):
    """Stopped past its life, its jobs run by another, and woken: fenced (rules 2 and 4)."""
    push(stored, "Failing", 1.0)
    push(stored, "Short", 1, 1.0)
    stored.zadd("schedule", {b'{"class":"Nobody","args":[],"jid":"far","queue":"far"}': time.time() + 1000})
    frozen = workers.start("-c", "2", environ=FAST)
    wait_for(lambda: len(ledger.notes("start")) == 2)
    frozen.send("STOP")
    other = workers.start("-c", "2", environ=FAST)
    wait_for(lambda: len(ledger.notes("end", pid=other.pid)) == 1, 30)
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
    wait_for(lambda: stored.sismember("processes", renewed[0]), 25)
    frozen.stopped()
    assert len(sorted_set(stored, "retry")) == 1
    assert waiting(stored) == private(stored) == []


def test_equal_payloads_in_flight_at_once_both_run_and_both_are_acknowledged(workers, stored, ledger):
    twin = b'{"class":"Short","args":[7,0.5],"jid":"0123456789abcdef01234567","queue":"default","retry":true}'
    push_raw(stored, twin, twin)
    worker = workers.start("-c", "2")
    wait_for(lambda: len(ledger.notes("end")) == 2)
    first, second = ledger.notes("start")
    assert second.time - first.time < 0.5
    worker.stopped()
    assert private(stored) == waiting(stored) == []


def test_equal_payloads_are_both_requeued_after_a_kill(workers, stored, ledger):
    twin = b'{"class":"Receiving","args":[],"jid":"0123456789abcdef01234567","queue":"default","retry":true}'
    push_raw(stored, twin, twin)
    doomed = workers.start("-c", "2", environ=FAST)
    wait_for(lambda: len(ledger.notes("start")) == 2)
    doomed.kill()
    workers.start("-c", "2", environ=FAST)
    wait_for(lambda: len(ledger.notes("end")) == 2, 30)
    wait_for(lambda: private(stored) == waiting(stored) == [])


def test_a_briefly_suspended_worker_keeps_its_jobs(workers, stored, ledger):
    push(stored, "Short", 1, 2.0)
    pausing = workers.start("-c", "1", environ=FAST)
    workers.start("-c", "1", environ=FAST)
    wait_for(lambda: ledger.notes("start"))
    pid = ledger.notes("start")[0].pid
    os.kill(pid, signal.SIGSTOP)
    until = time.monotonic() + 1.0
    wait_for(lambda: time.monotonic() > until)
    os.kill(pid, signal.SIGCONT)
    wait_for(lambda: ledger.notes("end"))
    assert len(ledger.notes("start")) == 1
    assert "lost ownership" not in pausing.output


def test_a_woken_worker_that_stops_requeues_only_its_own_jobs(workers, stored, ledger):
    push(stored, "Receiving")
    frozen = workers.start("-c", "1", "-t", "0", environ=FAST)
    wait_for(lambda: ledger.notes("start"))
    frozen.send("STOP")
    other = workers.start("-c", "1", environ=FAST)
    wait_for(lambda: ledger.notes("end", pid=other.pid), 30)
    frozen.send("TERM")
    frozen.send("CONT")
    assert frozen.ended() == 0
    other.stopped()
    assert len(ledger.notes("start")) == 2
    assert waiting(stored) == private(stored) == sorted_set(stored, "retry") == []


def test_scheduled_jobs_keep_moving_when_their_scheduler_is_killed(workers, stored, ledger):
    both = [workers.start("-c", "1"), workers.start("-c", "1")]
    lease = wait_for(lambda: stored.get("offsider:schedule"))
    killed, survivor = sorted(both, key=lambda worker: f":{worker.pid}:".encode() not in lease)
    killed.kill()
    payload = {"class": "Short", "args": [], "jid": "a" * 24, "queue": "default"}
    stored.zadd("schedule", {json.dumps(payload): time.time()})
    wait_for(lambda: ledger.notes("end"), 30)
    assert {item.pid for item in ledger.notes("end")} == {survivor.pid}
