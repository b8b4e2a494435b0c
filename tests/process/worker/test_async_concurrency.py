"""`async def` jobs run beside the threads of a worker: up to `worker.async_concurrency` of them occupy no thread."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.process.ledger import Ledger
from tests.process.stored import private, push
from tests.process.workers import Worker
from tests.waiting import wait_for

APP = """
    import asyncio
    import time
    from offsider import current_job, job
    from tests.process.ledger import note

    @job(name="Async")
    async def coroutine(seconds):
        note("start", current_job().jid, "async")
        await asyncio.sleep(0 if current_job().interrupted_count else seconds)
        note("end", current_job().jid, "async")

    @job(name="Sync")
    def thread(seconds):
        note("start", current_job().jid, "sync")
        time.sleep(seconds)
        note("end", current_job().jid, "sync")
"""


def at_once(ledger: Ledger, kinds: Iterable[str]) -> int:
    """The most jobs that ran at one time."""
    running = most = 0
    for note in ledger.notes():
        if note.word in kinds:
            running += {"start": 1, "end": -1}[note.event]
            most = max(most, running)
    return most


def threads_of(worker: Worker) -> int:
    status = Path(f"/proc/{worker.pid}/status").read_text()
    return int(status.partition("Threads:")[2].split()[0])


def all_ended(ledger: Ledger, jobs: int) -> None:
    wait_for(lambda: len(ledger.notes("end")) == jobs, 40)


def test_fifty_sleeping_coroutines_take_about_a_second_by_default(workers, stored, ledger):
    worker = workers.start(text=APP)
    push(stored, "Async", 0)  # which starts the loop
    all_ended(ledger, 1)
    threads = threads_of(worker) + 1  # the fetcher's ticker, which starts when jobs wait for a thread
    for _ in range(50):
        push(stored, "Async", 1)
    all_ended(ledger, 51)
    notes = ledger.notes()[2:]
    assert at_once(ledger, {"async"}) == 50
    assert notes[-1].time - notes[0].time < 2  # five threads alone would take ten seconds
    wait_for(lambda: private(stored) == [])
    wait_for(lambda: threads_of(worker) <= threads)


def test_functions_never_run_in_more_threads_than_the_concurrency(workers, stored, ledger):
    workers.start("-c", "2", text=APP)
    for _ in range(60):
        push(stored, "Async", 0.2)
        push(stored, "Sync", 0.01)
    all_ended(ledger, 120)
    assert at_once(ledger, {"sync"}) <= 2
    assert at_once(ledger, {"async"}) > 10
    wait_for(lambda: private(stored) == [])
    assert set(ledger.counts("start").values()) == {1}
