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
    import os, queue, socket, threading, time
    from offsider import current_job, job
    from tests.process.jobs import *
    from tests.process.ledger import note


    def loops():
        while True:
            pass

    def closes(held):
        while not os.path.exists("go"):  # the test writes it
            time.sleep(0.02)
        held.close()

    def receives_until_told(unread=b""):
        ours, theirs = socket.socketpair()
        ours.send(unread)
        threading.Thread(target=closes, args=[theirs]).start()
        ours.recv(1)
        loops()

    def receives_until_reset():
        try:
            receives_until_told(b"x")
        except ConnectionResetError:
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

    ways = (loops, receives_until_told, receives_until_reset, receives, gets, acquires, swallows, cleans_up_for_ever)
    WAYS = {way.__name__: way for way in ways}

    @job(name="Way")
    def way(name):
        jid = begin()
        if current_job().attempt == 1:
            WAYS[name]()
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
LATER = ("receives_until_told", "receives_until_reset")
NEVER = ("receives", "gets")


@pytest.mark.interrupts
@pytest.mark.parametrize("way", [*INTERRUPTED, *LATER])
def test_at_the_soft_limit_a_job_is_interrupted_as_soon_as_its_call_returns(start, stored, workers, way):
    worker = start("-c", "1")
    jid = push(stored, "Way", way, soft_timeout=0.8)
    if way in LATER:
        worker.until_says("could not be interrupted at its soft limit of 0.8 s")
        (workers.folder / "go").touch()
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
    assert time.monotonic() - began < 25  # the timeout of a stop, which does not apply
    assert "after its hard limit of 2.5 s" in worker.output
    assert failed(stored, jid)["error_class"] == "offsider.core.errors.HardTimeout"
    assert waiting(stored) == private(stored) == []


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


def test_other_jobs_finish_before_a_worker_with_a_hung_job_ends(start, stored, ledger):
    worker = start("-c", "2")
    beside = push(stored, "Short", 1, 3.0)
    hangs = push(stored, "Way", "acquires", hard_timeout=1)
    assert worker.ended() == 1
    assert ledger.notes("end", jid=beside)
    assert failed(stored, hangs)
    assert waiting(stored) == private(stored) == []
