"""Time limits of real jobs: every way to block a thread is interrupted, or logged.

Under coverage on CPython 3.11 nothing is interrupted, so these workers are not measured. A limit is long enough for a
job to reach the tested call, even on a busy machine.
"""

from __future__ import annotations

import json
import time

import pytest

from tests.process.stored import private, push, waiting
from tests.waiting import wait_for

JOBS = """
    import asyncio, queue, re, socket, subprocess, threading, time
    from offsider import SoftTimeout, current_job, job
    from tests.process.jobs import *
    from tests.process.ledger import note


    def loops():
        while True:
            pass

    def sleeps():
        time.sleep(3)

    def runs_a_program():
        subprocess.run(["sleep", "3"])

    def receives_for_3_s():
        ours, theirs = socket.socketpair()
        ours.settimeout(3)
        try:
            ours.recv(1)
        except TimeoutError:
            note("handler", current_job().jid)
            loops()

    def receives():
        ours, theirs = socket.socketpair()
        ours.recv(1)

    def gets():
        queue.Queue().get()

    def acquires():
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

    def holds_the_interpreter():
        re.match(r"(a+)+$", "a" * 25 + "b")  # seconds in C code that lets nobody else run

    def swallows():
        while True:
            try:
                loops()
            except:
                note("swallowed", current_job().jid)

    def cleans_up_for_ever():
        try:
            loops()
        finally:
            note("cleaning", current_job().jid)
            threading.Event().wait()

    WAYS = {way.__name__: way for way in (loops, sleeps, runs_a_program, receives_for_3_s, receives, gets, acquires,
                                          holds_the_interpreter, swallows, cleans_up_for_ever)}

    @job(name="Way")
    def way(name):
        jid = begin()
        if current_job().attempt == 1:
            WAYS[name]()
        note("end", jid)

    LOCKS = {"lock": threading.Lock(), "condition": threading.Condition(threading.Lock())}

    @job(name="Holds")
    def holds(name, seconds):
        jid = begin()
        with LOCKS[name]:
            note("holds", jid)
            time.sleep(seconds)
        note("end", jid)

    @job(name="Tidy")
    def tidy():
        jid = begin()
        try:
            loops()
        except SoftTimeout as error:
            note("tidied", jid, error)

    @job(name="Declared", soft_timeout=0.2)
    def declared():
        begin()
        loops()

    @job(name="AsyncTidy")
    async def async_tidy():
        jid = begin()
        try:
            await asyncio.sleep(60)
        except SoftTimeout as error:
            await asyncio.sleep(0)
            note("tidied", jid, error)

    @job(name="AsyncForever")
    async def async_forever():
        jid = begin()
        if current_job().attempt == 1:
            await asyncio.sleep(60)
        note("end", jid)
"""


@pytest.fixture
def start(workers):
    return lambda *options: workers.start(*options, text=JOBS, measured=False)


def failed(stored, jid: str) -> dict:
    """The job in the retry set."""
    retried = [json.loads(raw) for raw in stored.zrange("retry", 0, -1)]
    return next((job for job in retried if job["jid"] == jid), {})


INTERRUPTED = ("loops",)
LATER = ("sleeps", "runs_a_program", "receives_for_3_s")
NEVER = ("receives", "gets", "acquires")


@pytest.mark.interrupts
@pytest.mark.parametrize("way", [*INTERRUPTED, *LATER])
def test_at_the_soft_limit_a_job_is_interrupted_as_soon_as_its_call_returns(start, stored, ledger, way):
    worker = start("-c", "1")
    jid = push(stored, "Way", way, soft_timeout=0.8)
    job = wait_for(lambda: failed(stored, jid))
    assert job["error_class"] == "offsider.core.errors.SoftTimeout"
    assert job["error_message"] == "the job exceeded its soft limit of 0.8 s (soft_timeout)"
    assert job["retry_count"] == 0
    assert ("could not be interrupted at its soft limit of 0.8 s" in worker.output) == (way in LATER)
    assert worker.runs


@pytest.mark.parametrize("way", NEVER)
def test_a_job_that_waits_forever_is_logged_with_its_location_and_ends_with_its_worker(start, stored, ledger, way):
    worker = start("-c", "1")
    began = time.monotonic()
    jid = push(stored, "Way", way, soft_timeout=1, hard_timeout=2.5)
    printed = worker.until_says("could not be interrupted at its soft limit of 1 s")
    assert any(f" in {place}" in printed for place in (way, "get", "wait")), printed
    assert worker.ended() == 1
    assert time.monotonic() - began < 12
    assert "after its hard limit of 2.5 s" in worker.output
    assert failed(stored, jid)["error_class"] == "offsider.core.errors.HardTimeout"
    assert waiting(stored) == private(stored) == []


@pytest.mark.parametrize("kind", ["lock", "condition"])
def test_a_lock_that_a_late_job_waited_for_is_free_for_those_after_it(start, stored, ledger, kind):
    worker = start("-c", "2")
    holder = push(stored, "Holds", kind, 2.0)
    wait_for(lambda: ledger.notes("holds", jid=holder))
    late = push(stored, "Holds", kind, 0.0, soft_timeout=0.2)
    wait_for(lambda: failed(stored, late) or ledger.notes("end", jid=late))
    after = push(stored, "Holds", kind, 0.0)
    wait_for(lambda: ledger.notes("end", jid=after))
    worker.stopped()


@pytest.mark.interrupts
def test_a_job_that_blocks_the_interpreter_is_interrupted_or_logged_when_it_returns(start, stored, ledger):
    worker = start("-c", "1")
    jid = push(stored, "Way", "holds_the_interpreter", soft_timeout=0.1)
    wait_for(lambda: failed(stored, jid) or "Python could not interrupt it" in worker.output, 120)
    worker.stopped()
    if failed(stored, jid):
        assert failed(stored, jid)["error_class"] == "offsider.core.errors.SoftTimeout"
    else:
        assert "Python could not interrupt it" in worker.output


@pytest.mark.interrupts
@pytest.mark.parametrize("way, word", [("swallows", "swallowed"), ("cleans_up_for_ever", "cleaning")])
def test_a_job_that_swallows_interruptions_ends_with_its_worker(start, stored, ledger, way, word):
    worker = start("-c", "1")
    jid = push(stored, "Way", way, soft_timeout=1, hard_timeout=1.5)
    assert worker.ended() == 1
    assert ledger.notes(word, jid=jid)
    assert "could not be interrupted" not in worker.output
    assert failed(stored, jid)["error_class"] == "offsider.core.errors.HardTimeout"
    assert private(stored) == []


@pytest.mark.interrupts
def test_a_job_may_catch_its_soft_limit_and_clean_up(start, stored, ledger):
    worker = start("-c", "2")
    jids = [push(stored, "Tidy", soft_timeout=1), push(stored, "AsyncTidy", soft_timeout=1)]
    wait_for(lambda: len(ledger.notes("tidied")) == 2)
    assert {note.jid for note in ledger.notes("tidied")} == set(jids)
    assert {note.word for note in ledger.notes("tidied")} == {"the job exceeded its soft limit of 1 s (soft_timeout)"}
    worker.stopped()
    assert stored.zcard("retry") == 0


@pytest.mark.interrupts
def test_a_job_of_another_program_has_the_limit_of_its_declaration(start, stored):
    """Ruby does not know the option, so its payloads do not carry it."""
    worker = start("-c", "1")
    jid = push(stored, "Declared")
    assert wait_for(lambda: failed(stored, jid))["error_class"] == "offsider.core.errors.SoftTimeout"
    worker.stopped()


@pytest.mark.parametrize("limit", ["soft_timeout", "hard_timeout"])
def test_a_coroutine_over_its_limit_fails_and_the_worker_continues(start, stored, ledger, limit):
    worker = start("-c", "1")
    jid = push(stored, "AsyncForever", **{limit: 0.2})
    wait_for(lambda: failed(stored, jid))
    expected = {"soft_timeout": "SoftTimeout", "hard_timeout": "HardTimeout"}[limit]
    assert failed(stored, jid)["error_class"] == f"offsider.core.errors.{expected}"
    after = push(stored, "Short")
    wait_for(lambda: ledger.notes("end", jid=after))
    worker.stopped()


@pytest.mark.interrupts
def test_at_the_hard_limit_an_interruptible_thread_fails_and_the_worker_continues(start, stored, ledger):
    worker = start("-c", "1")
    jid = push(stored, "Way", "loops", hard_timeout=0.2)
    assert wait_for(lambda: failed(stored, jid))["error_class"] == "offsider.core.errors.HardTimeout"
    after = push(stored, "Short")
    wait_for(lambda: ledger.notes("end", jid=after))
    worker.stopped()


def test_other_jobs_finish_before_a_worker_with_a_hung_job_ends(start, stored, ledger):
    worker = start("-c", "2")
    beside = push(stored, "Short", 1, 3.0)
    hangs = push(stored, "Way", "acquires", hard_timeout=1)
    assert worker.ended() == 1
    assert ledger.notes("end", jid=beside)
    assert failed(stored, hangs)
    assert waiting(stored) == private(stored) == []


def test_without_limits_there_is_no_thread_for_them(start, stored, ledger):
    worker = start("-c", "1")
    push(stored, "Short")
    wait_for(lambda: ledger.notes("end"))
    worker.send("TTIN")
    printed = worker.until_says("MainThread")
    worker.stopped()
    assert "offsider-time-limits" not in printed + worker.output
