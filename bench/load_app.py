"""The jobs of `bench revision`. They record their runs in the file ``OFFSIDER_BENCH_SLOTS``."""

from __future__ import annotations

import asyncio
import os
import time
from functools import cache

from bench.slots import Slots
from offsider import job

_job_seconds = float(os.environ.get("OFFSIDER_BENCH_JOB_MS", "0")) / 1000


@cache
def _slots() -> Slots:
    return Slots(os.environ["OFFSIDER_BENCH_SLOTS"])


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
