"""Units of work with an ended run, and a shortcut that counts them."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from offsider.core.outcome import Failed, Succeeded
from offsider.core.series import DURATION_SECONDS, Series
from offsider.runtime.context import JobContext
from offsider.worker.run_account import RunAccount
from offsider.worker.unit_of_work import Run, UnitOfWork


def unit(
    name: str = "A",
    seconds: float = 0.0,
    *,
    queue: str = "default",
    waited: float | None = 0.0,
    cpu: float | None = None,
    known: bool = True,
    started_at: float = 1_000.0,
    **fields: object,
) -> UnitOfWork:
    made = UnitOfWork(queue, b"raw")
    payload = {"class": name, "args": [], "jid": "j", **fields}
    if waited is not None:
        payload["enqueued_at"] = round((started_at - waited) * 1000)
    job = JobContext(payload, queue, declared=object() if known else None)
    made.run = Run(job, Succeeded(), started_at, seconds, cpu)
    return made


def counts(name: str = "A", processed: int = 1, failed: int = 0, ms: int = 5, seconds: Sequence[float] = ()) -> Series:
    """Return the counts of a class; ``ms`` and ``seconds`` are sum and durations of the runs that did not raise."""
    series = Series({"class": name}, processed, failed, run_seconds=ms / 1000)
    for duration in seconds:
        series.run_buckets[bisect_left(DURATION_SECONDS, duration)] += 1
    return series


def fail(runs: RunAccount, made: UnitOfWork, *, retried: bool = True) -> None:
    run = made.run
    assert run is not None
    runs.failed(made, replace(run, outcome=Failed(ValueError())), retried=retried)


def count(runs: RunAccount, processed: int, failed: int = 0) -> None:
    """Count runs; ``failed`` of them raised."""
    runs.finished([unit(started_at=time.time()) for _ in range(processed - failed)])
    for _ in range(failed):
        fail(runs, unit(started_at=time.time()))
