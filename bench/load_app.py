"""The jobs of the load test, imported by its worker."""

from __future__ import annotations

import asyncio
import os
import time

from bench.slots import Slots
from offsider import job

_slots = Slots(os.environ["OFFSIDER_BENCH_SLOTS"])
_job_seconds = float(os.environ.get("OFFSIDER_BENCH_JOB_MS", "0")) / 1000


@job(name="bench.noop")
def noop(number: int, *_rest: object) -> None:
    """Record start and end, and sleep in between if configured."""
    _slots.started(number)
    if _job_seconds:
        time.sleep(_job_seconds)
    _slots.ended(number)


@job(name="bench.anoop")
async def anoop(number: int, *_rest: object) -> None:
    """Do the same as a coroutine."""
    _slots.started(number)
    if _job_seconds:
        await asyncio.sleep(_job_seconds)
    _slots.ended(number)


@job(name="bench.spin")
def spin(number: int, loops: int) -> None:
    """Compute in pure Python."""
    _slots.started(number)
    value = number
    for step in range(loops):
        value = (value * 31 + step) & 0xFFFF
    _slots.ended(number)
