"""The jobs of the load test, and the extension ``OFFSIDER_BENCH_EXTENSION``: ``batches``, ``limits:N``, ``unique``."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from bench.slots import Slots
from offsider import Config, job
from offsider.ext.batches import Batches
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.unique import Unique

#: By name: made from the text after the colon; the limit 0 is none.
EXTENSIONS: dict[str, Callable[[str], Any]] = {
    "batches": lambda _: Batches(),
    "limits": lambda limit: ConcurrencyLimits(limits={"bench.noop": int(limit)}),
    "unique": lambda _: Unique(),
}
_job_seconds = float(os.environ.get("OFFSIDER_BENCH_JOB_MS", "0")) / 1000


@cache
def _slots() -> Slots:
    return Slots(os.environ["OFFSIDER_BENCH_SLOTS"])


def configure(config: Config) -> None:
    """Install the extension, if the variable names one."""
    name, _, value = os.environ.get("OFFSIDER_BENCH_EXTENSION", "").partition(":")
    if name:
        config.use(EXTENSIONS[name](value))


@job(name="bench.noop")
def noop(number: int, *_rest: object) -> None:
    """Record start and end, and sleep in between if configured."""
    _slots().started(number)
    if _job_seconds:
        time.sleep(_job_seconds)
    _slots().ended(number)


@job(name="bench.anoop")
async def anoop(number: int, *_rest: object) -> None:
    """Do the same as a coroutine."""
    _slots().started(number)
    if _job_seconds:
        await asyncio.sleep(_job_seconds)
    _slots().ended(number)


@job(name="bench.spin")
def spin(number: int, loops: int) -> None:
    """Compute in pure Python."""
    _slots().started(number)
    value = number
    for step in range(loops):
        value = (value * 31 + step) & 0xFFFF
    _slots().ended(number)


@job(name="bench.pass")
def nothing(*_: object) -> None:
    """Do nothing."""
