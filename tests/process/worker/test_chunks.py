"""Chunks in whole workers: kills, stops, pauses, a failing member and a poison pill among good ones."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from tests.process.stored import payload, private, push, sorted_set, waiting
from tests.waiting import wait_for

FAST = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}
PATIENT = {"CHUNK_SECONDS": "600"}
APP = """
    import asyncio, os, signal, time
    from offsider import Call, job
    from tests.process import jobs
    from tests.process.ledger import note

    def configure(config):
        jobs.configure(config)

    seconds = float(os.environ.get("CHUNK_SECONDS", "0.5"))

    def run(calls):
        for call in calls:
            note("start", call.jid, len(calls))
            kind = call.args[0]
            if kind == "pill":
                time.sleep(0.05)
                os.kill(os.getpid(), signal.SIGKILL)
            if kind == "wrong":
                call.fail(ValueError("wrong"))
        return 0 if calls[0].job.interrupted_count else max(call.args[1] for call in calls)

    @job(name="Chunk", chunk=10, chunk_seconds=seconds)
    def chunk(calls: list[Call[str, float]]) -> None:
        until = time.monotonic() + run(calls)
        while time.monotonic() < until:
            time.sleep(0.01)
        for call in calls:
            note("end", call.jid)

    @job(name="AsyncChunk", chunk=10, chunk_seconds=seconds)
    async def achunk(calls: list[Call[str, float]]) -> None:
        await asyncio.sleep(run(calls))
        for call in calls:
            note("end", call.jid)
"""
STUCK = """

    @job(name="Stuck", chunk=3, hard_timeout=0.5)
    def stuck(calls: list[Call[()]]) -> None:
        time.sleep(30)
"""
KINDS = pytest.mark.parametrize("name", ["Chunk", "AsyncChunk"])


def strikes(client) -> list[bytes]:
    return client.keys("offsider:strikes:*")


@KINDS
def test_full_chunks_run_at_once_and_a_smaller_one_after_its_time(workers, stored, ledger, name):
    jids = {push(stored, name, "", 0.0) for _ in range(25)}
    worker = workers.start("-c", "1", text=APP)
    wait_for(lambda: len(ledger.notes("end")) == 25)
    wait_for(lambda: private(stored) == [])
    assert Counter(ledger.words("start")) == {"10": 20, "5": 5}
    assert set(ledger.counts("end")) == jids
    worker.stopped()
    assert (stored.get("stat:processed"), stored.get("stat:failed")) == (b"25", None)


@KINDS
def test_members_of_a_killed_worker_run_again_whether_they_waited_or_ran(workers, stored, ledger, name):
    jids = {push(stored, name, "", 60.0) for _ in range(15)}
    doomed = workers.start("-c", "2", text=APP, environ=FAST | PATIENT)
    wait_for(lambda: len(ledger.notes("start")) == 10 and len(private(stored)) == 15)
    doomed.kill()
    workers.start("-c", "2", text=APP, environ=FAST)
    wait_for(lambda: len(ledger.notes("end")) == 15, 60)
    wait_for(lambda: private(stored) == [])
    assert set(ledger.counts("end")) == jids
    assert sorted(Counter(ledger.counts("start").values()).items()) == [(1, 5), (2, 10)]
    assert {word.rpartition(" ")[2] for word in ledger.words("reclaimed")} == {"1"}
    assert len(strikes(stored)) == 15  # as all jobs in the lists of a dead process (rule 6)
    assert waiting(stored) == sorted_set(stored, "retry") == sorted_set(stored, "dead") == []


@KINDS
@pytest.mark.parametrize("how", ["TERM", "TSTP", "pause"])
def test_waiting_members_go_back_unchanged(workers, stored, ledger, name, how):
    jobs = [payload(name, str(number), 0.0) for number in range(5)]
    for job in jobs:
        push(stored, name, *job["args"], jid=job["jid"])
    worker = workers.start("-c", "3", text=APP, environ=PATIENT)
    wait_for(lambda: len(private(stored)) == 5)
    if how == "pause":
        stored.sadd("paused", "default")
    else:
        worker.send(how)
    wait_for(lambda: private(stored) == [] and len(waiting(stored)) == 5)
    assert sorted(waiting(stored), key=str) == sorted(jobs, key=str)  # three threads took them, in any order
    assert strikes(stored) == ledger.notes("start") == []
    worker.until_says(f"requeued {name}", times=5)
    if how == "pause":
        stored.srem("paused", "default")
        wait_for(lambda: len(private(stored)) == 5)
    if how == "TERM":
        assert worker.ended() == 0
    else:
        worker.stopped()
    assert sorted(waiting(stored), key=str) == sorted(jobs, key=str)


@KINDS
def test_a_stop_interrupts_a_running_chunk_without_a_strike(workers, stored, ledger, name):
    for number in range(10):
        push(stored, name, str(number), 60.0)
    worker = workers.start("-c", "2", "-t", "1", text=APP)
    wait_for(lambda: len(ledger.notes("start")) == 10)
    worker.stopped()
    # A stop may come between the ends of two members of a coroutine: their order is not kept then.
    assert sorted(job["args"][0] for job in waiting(stored)) == [str(number) for number in range(10)]
    assert {job["interrupted_count"] for job in waiting(stored)} == {1}
    assert all("retry_count" not in job for job in waiting(stored))
    assert strikes(stored) == private(stored) == sorted_set(stored, "retry") == []


@KINDS
def test_one_failing_member_fails_alone(workers, stored, ledger, name):
    jids = [push(stored, name, "wrong" if number == 4 else "", 0.0) for number in range(10)]
    worker = workers.start("-c", "2", text=APP)
    wait_for(lambda: len(sorted_set(stored, "retry")) == 1)
    wait_for(lambda: private(stored) == [])
    (retry,) = sorted_set(stored, "retry")
    assert (retry["jid"], retry["retry_count"]) == (jids[4], 0)
    assert (retry["error_class"], retry["error_message"]) == ("ValueError", "wrong")
    assert worker.stopped().count(": done") == 9
    assert (stored.get("stat:processed"), stored.get("stat:failed")) == (b"10", b"1")


def test_all_members_of_a_call_that_hangs_beyond_its_hard_limit_have_failed(workers, stored, ledger):
    jids = {push(stored, "Stuck") for _ in range(3)}
    worker = workers.start("-c", "2", text=APP + STUCK)
    before = time.monotonic()
    worker.until_says("after its hard limit of 0.5 s")
    worker.ended()
    assert time.monotonic() - before < 15  # it does not wait for the call
    retries = sorted_set(stored, "retry")
    assert {job["jid"] for job in retries} == jids
    assert {job["error_class"].rpartition(".")[2] for job in retries} == {"HardTimeout"}
    assert waiting(stored) == private(stored) == strikes(stored) == []


@KINDS
def test_a_pill_ends_alone_and_the_others_are_done(workers, stored, ledger, name):
    good = {push(stored, name, "", 0.0) for _ in range(6)}
    pill = push(stored, name, "pill", 0.0)
    good |= {push(stored, name, "", 0.0) for _ in range(3)}
    worker = workers.start("-c", "3", text=APP, environ=FAST, wait=False)

    def all_done() -> bool:
        nonlocal worker
        if not worker.runs:
            worker = workers.start("-c", "3", text=APP, environ=FAST, wait=False)
        return set(ledger.counts("end")) >= good and bool(sorted_set(stored, "dead"))

    wait_for(all_done, 90)
    wait_for(lambda: private(stored) == [])
    (dead,) = sorted_set(stored, "dead")
    assert (dead["jid"], dead["error_class"]) == (pill, "offsider.PoisonPill")
    assert ledger.words("start", jid=pill)[-1] == "1"  # alone
    assert len(ledger.notes("start", jid=pill)) == 3
    assert set(ledger.counts("end")) == good
    assert waiting(stored) == sorted_set(stored, "retry") == []


def test_no_member_is_lost_under_kills(workers, stored, ledger):
    """A member ends twice only if its process died after the function noted it, and before the acknowledgement."""
    jids: set[str] = set()
    environ = FAST | {"OFFSIDER_WORKER_MAX_STRIKES": "0"}  # the same jobs may be killed three times
    fleet = [workers.start("-c", "3", text=APP, environ=environ) for _ in range(2)]
    for _ in range(6):
        before = len(ledger.notes("end"))
        jids |= {push(stored, ("Chunk", "AsyncChunk")[number % 2], "", 0.1) for number in range(600)}
        wait_for(lambda before=before: len(ledger.notes("end")) > before + 100)
        fleet.pop(0).kill()
        fleet.append(workers.start("-c", "3", text=APP, environ=environ, wait=False))
    wait_for(lambda: set(ledger.counts("end")) == jids, 120, "the end of all members")
    wait_for(lambda: private(stored) == [], what="empty private lists")
    ends = ledger.counts("end")
    twice = [jid for jid, count in ends.items() if count > 1]
    begun = sum(count > 1 for count in ledger.counts("start").values())
    print(f"{len(jids)} members, 6 kills: lost {len(jids - set(ends))}, begun again {begun}, ended twice {len(twice)}")
    for jid in twice:
        assert len({item.pid for item in ledger.notes("end", jid=jid)}) == ends[jid]  # never twice in one process
    assert len(twice) <= 6 * (3 + 3) * 10  # the chunks of its threads when a process is killed
    assert waiting(stored) == sorted_set(stored, "retry") == sorted_set(stored, "dead") == []
