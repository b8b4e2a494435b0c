"""The jobs of workers with extensions: unique ones, limited ones, batches, and some for each shard of a fleet."""

from __future__ import annotations

import os
import time

from bench.scoreboard import batch_jobs, shifted_clock, ticking
from bench.scoreboard.effects import VARIABLE, Effects
from bench.scoreboard.inside import Inside
from offsider import Config, current_job, job
from offsider.core.payload import JobPayload
from offsider.ext.batches import Batches
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.unique import Unique

__all__ = ["batch_jobs"]

#: The shard that the row started a worker for.
SHARD = "SCOREBOARD_SHARD"
LIMIT = 3
#: Longer than any row: a lock is released when its job ends.
LOCKED_SECONDS = 3600
#: Short enough that a lock expires during the row.
BRIEFLY_SECONDS = 10

effects = Effects(os.environ.get(VARIABLE, ""))
inside = Inside(os.environ.get(VARIABLE, ""))


def configure(config: Config) -> None:
    config.use(Unique())
    config.use(ConcurrencyLimits())
    config.use(Batches())
    ticking.install(config)
    if offset := float(os.environ.get(shifted_clock.VARIABLE, "0")):
        config.clock = shifted_clock.ShiftedClock(offset)


def run(ms: float, shard: str) -> None:
    """Sleep, and count the effect and its shard."""
    time.sleep(ms / 1000)
    context = current_job()
    effects.ran(context.jid, context.interrupted_count)
    if os.environ.get(SHARD, shard) != shard:
        effects.count("strayed", context.jid)


@job(name="fleet.Urgent", urgency="high")
def urgent(_number: int, ms: float = 1) -> None:
    """Run on the shard of urgent jobs."""
    run(ms, "urgent")


@job(name="fleet.Crunch", resource_boundary="cpu")
def crunch(_number: int, ms: float = 1) -> None:
    """Run on the shard on the other server."""
    run(ms, "crunch")


@job(name="fleet.Ordinary")
def ordinary(_number: int, ms: float = 1) -> None:
    """Run on the catch-all shard."""
    run(ms, "ordinary")


def _in_a_second(_count: int, _error: BaseException, _payload: JobPayload) -> float:
    return 1


@job(name="fleet.Flaky", resource_boundary="cpu", retry=5, retry_in=_in_a_second)
def flaky(_number: int, ms: float = 1) -> None:
    """Fail at the first attempt; the retry stays on the same server."""
    if current_job().attempt == 1:
        raise RuntimeError("the first time it fails")
    run(ms, "crunch")


@job(name="fleet.Limited", extra={"concurrency_limit": LIMIT})
def limited(_number: int, ms: float = 1) -> None:
    """Run at most three at once."""
    with inside.counted("limited"):
        run(ms, "ordinary")


@job(name="fleet.LimitedCrunch", resource_boundary="cpu", extra={"concurrency_limit": 1})
def limited_crunch(_number: int, ms: float = 1) -> None:
    """Run one at a time, on the other server."""
    with inside.counted("limited crunch"):
        run(ms, "crunch")


@job(name="fleet.Once", extra={"unique_for": LOCKED_SECONDS})
def once(key: int) -> None:
    """Run as a unique job per key."""
    with inside.counted(f"once {key}", "once"):
        run(1, "ordinary")


@job(name="fleet.Briefly", unique_until="until_executed", unique_for=BRIEFLY_SECONDS)
def briefly(_key: int) -> None:
    """Run with a lock that expires after a few seconds."""
    run(1, "ordinary")


@job(name=ticking.JOB)
def tick() -> None:
    """Count the tick by the jid of this periodic job."""
    ticking.note_job(effects)
