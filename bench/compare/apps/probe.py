"""Records the runs of jobs in a file that harness, producer and workers map: no command, lock or system call per job.

A slot contains: pushed, last start, last end (CLOCK_MONOTONIC, ns), number of starts, number of ends, and the pid of
the last run. Nothing here is atomic: two simultaneous runs of one job may count as one.
Standard library only, because every rival's environment imports it.
"""

from __future__ import annotations

import mmap
import os
import struct
import time

SLOT = struct.Struct("=qqqqqq")
JOB_SECONDS = float(os.environ.get("BENCH_JOB_MS", "0")) / 1000
WORKER = os.getpid()  # of the process that imported the app, also when it forks for its jobs

with open(os.environ["BENCH_SLOTS"], "r+b") as file:  # noqa: PTH123
    slots = mmap.mmap(file.fileno(), 0)


def pushed(number: int) -> None:
    struct.pack_into("=q", slots, number * SLOT.size, time.monotonic_ns())


def started(number: int) -> None:
    at = number * SLOT.size
    (starts,) = struct.unpack_from("=q", slots, at + 24)
    struct.pack_into("=q", slots, at + 8, time.monotonic_ns())
    struct.pack_into("=q", slots, at + 24, starts + 1)
    struct.pack_into("=q", slots, at + 40, WORKER)


def ended(number: int) -> None:
    at = number * SLOT.size
    (ends,) = struct.unpack_from("=q", slots, at + 32)
    struct.pack_into("=q", slots, at + 16, time.monotonic_ns())
    struct.pack_into("=q", slots, at + 32, ends + 1)


def run(number: int, *_rest: object) -> None:
    """The job of every contestant with threads or processes."""
    started(number)
    if JOB_SECONDS:
        time.sleep(JOB_SECONDS)
    ended(number)


async def arun(number: int, *_rest: object) -> None:
    """The job of every contestant with an event loop."""
    started(number)
    if JOB_SECONDS:
        from asyncio import sleep

        await sleep(JOB_SECONDS)
    ended(number)
