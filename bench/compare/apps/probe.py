"""The job of every contestant, and the record of its runs."""

from __future__ import annotations

import os
import time

from bench.slots import Slots

JOB_SECONDS = float(os.environ.get("BENCH_JOB_MS", "0")) / 1000

slots = Slots(os.environ["BENCH_SLOTS"])


def run(number: int, *_rest: object) -> None:
    """The job of every contestant with threads or processes."""
    slots.started(number)
    if JOB_SECONDS:
        time.sleep(JOB_SECONDS)
    slots.ended(number)


async def arun(number: int, *_rest: object) -> None:
    """The job of every contestant with an event loop."""
    slots.started(number)
    if JOB_SECONDS:
        from asyncio import sleep

        await sleep(JOB_SECONDS)
    slots.ended(number)
