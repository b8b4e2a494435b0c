"""`async def` jobs run beside the threads of a worker: up to `worker.async_concurrency` of them occupy no thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import pytest

from tests.process.ledger import Ledger
from tests.process.stored import private, push, waiting
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


@pytest.mark.parametrize("seats, most", [(3, 5), (0, 2)])
def test_coroutines_beyond_the_limit_occupy_threads(workers, stored, ledger, seats, most):
    workers.start("-c", "2", text=APP, environ={"OFFSIDER_WORKER_ASYNC_CONCURRENCY": str(seats)})
    for _ in range(12):
        push(stored, "Async", 0.3)
    all_ended(ledger, 12)
    assert at_once(ledger, {"async"}) == most


def test_long_coroutines_leave_the_threads_when_short_ones_have_ended(workers, stored, ledger):
    workers.start("-c", "1", text=APP, environ={"OFFSIDER_WORKER_ASYNC_CONCURRENCY": "1"})
    push(stored, "Async", 1)
    wait_for(lambda: ledger.notes("start"))
    push(stored, "Async", 60)
    wait_for(lambda: len(ledger.notes("start")) == 2)
    short = push(stored, "Sync", 0)
    wait_for(lambda: ledger.notes("end", jid=short), 20)


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


def test_with_an_idle_process_no_job_of_a_mixed_queue_waits_for_a_seat(workers, stored, ledger):
    for _ in range(2):
        workers.start("-c", "3", text=APP, measured=False)
    push(stored, "Async", 0)
    all_ended(ledger, 1)
    pushed: dict[str, float] = {}
    with Lag() as lag:
        for number in range(120):
            kind, seconds = ("Sync", 0.03) if number % 4 == 0 else ("Async", 0.3)
            now = time.time()
            pushed[push(stored, kind, seconds)] = now
            time.sleep(0.02)
        all_ended(ledger, 121)
    late = [note.time - pushed[note.jid] for note in ledger.notes("start") if note.jid in pushed]
    print(f"latest {max(late) * 1000:.1f} ms, lag of the machine {lag.worst * 1000:.1f} ms")
    assert len(late) == len(pushed)
    assert max(late) < 0.04 + 3 * lag.worst
    assert at_once(ledger, {"async"}) > 6, "more than there are threads"


def test_a_stop_requeues_the_coroutines_that_do_not_end(workers, stored, ledger):
    worker = workers.start("-c", "2", "-t", "1", text=APP)
    jids = {push(stored, "Async", 60) for _ in range(30)}
    wait_for(lambda: set(ledger.counts("start")) == jids)
    worker.stopped()
    assert {job["jid"] for job in waiting(stored)} == jids
    assert private(stored) == []
    workers.start("-c", "2", text=APP)
    all_ended(ledger, 30)


def test_the_coroutines_of_a_killed_worker_run_again(workers, stored, ledger):
    worker = workers.start("-c", "2", text=APP)
    jids = {push(stored, "Async", 60) for _ in range(30)}
    wait_for(lambda: set(ledger.counts("start")) == jids)
    worker.kill_alone()  # its parent requeues the jobs
    workers.start("-c", "2", text=APP)
    wait_for(lambda: set(ledger.counts("end")) == jids, 40)


class Lag:
    """How late this machine wakes a thread that sleeps: the worst case, in seconds."""

    def __enter__(self) -> Self:
        self.worst = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.is_set():
            before = time.perf_counter()
            time.sleep(0.005)
            self.worst = max(self.worst, time.perf_counter() - before - 0.005)
