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
    from pathlib import Path
    from offsider import current_job, job
    from tests.process.ledger import note

    @job(name="Async")
    async def coroutine():
        note("start", current_job().jid, "async")
        while not Path("go").exists():  # the test writes it
            await asyncio.sleep(0.02)
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
    wait_for(lambda: len(ledger.notes("end")) == jobs)


def test_fifty_sleeping_coroutines_run_at_one_time_by_default(workers, stored, ledger):
    worker = workers.start(text=APP)
    push(stored, "Async")  # which starts the loop
    wait_for(lambda: at_once(ledger, {"async"}) == 1)
    threads = threads_of(worker) + 1  # the fetcher's ticker, which starts when jobs wait for a thread
    for _ in range(49):
        push(stored, "Async")
    wait_for(lambda: at_once(ledger, {"async"}) == 50)
    wait_for(lambda: threads_of(worker) <= threads)
    (workers.folder / "go").touch()
    all_ended(ledger, 50)
    wait_for(lambda: private(stored) == [])


def test_functions_never_run_in_more_threads_than_the_concurrency(workers, stored, ledger):
    workers.start("-c", "2", text=APP)
    for _ in range(60):
        push(stored, "Async")
        push(stored, "Sync", 0.01)
    wait_for(lambda: at_once(ledger, {"async"}) > 10)
    (workers.folder / "go").touch()
    all_ended(ledger, 120)
    assert at_once(ledger, {"sync"}) <= 2
    wait_for(lambda: private(stored) == [])
    assert set(ledger.counts("start").values()) == {1}
