"""The application that most worker processes of the tests run: jobs that note in the ledger what they do.

A job that lasts notes ``start`` and ``end``. Run again after an interruption it ends at once, so that a test
sees its second run without another wait.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from offsider import Config, current_job, job
from tests.process.ledger import note


def configure(config: Config) -> None:
    config.on("job_reclaimed", lambda news: note("reclaimed", word=f"{news.identity} {news.interrupted_count}"))
    config.on("lost_ownership", lambda news: note("lost ownership", news.job.jid, news.outcome))
    config.death_handlers.append(lambda payload, error: note("death", payload.get("jid", ""), error))


def begin() -> str:
    context = current_job()
    note("start", context.jid, context.interrupted_count)
    return context.jid


def again() -> bool:
    return current_job().interrupted_count > 0


@job(name="Short")
def short(number: int = 0, seconds: float = 0.0) -> None:
    jid = begin()
    time.sleep(seconds)
    note("end", jid, number)


@job(name="Held", retry_in=lambda *_: 3600)
def held(fails: bool = False) -> None:
    """Ends when the test writes the file `go`, however slow the machine is."""
    jid = begin()
    while not Path("go").exists():
        time.sleep(0.02)
    if fails:
        raise RuntimeError("it fails")
    note("end", jid)


@job(name="Long")
def long(seconds: float) -> None:
    """Python code that runs on: an exception reaches it between two bytecodes."""
    jid = begin()
    until = time.monotonic() + seconds
    while not again() and time.monotonic() < until:
        time.sleep(0.02)
    note("end", jid)


@job(name="Receiving")
def receiving() -> None:
    """Blocked in a system call: no exception can reach it."""
    jid = begin()
    if not again():
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.recv(1)
    note("end", jid)


@job(name="Locked")
def locked() -> None:
    jid = begin()
    if not again():
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    note("end", jid)


@job(name="Hog")
def hog(seconds: float) -> None:
    """Blocks all threads: PyDLL keeps the GIL. Without the GIL, a garbage collection stops them until the call ends."""
    jid = begin()
    over = threading.Event()

    def collect() -> None:
        while not over.is_set():
            gc.collect()

    collector = threading.Thread(target=collect)
    collector.start()
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    over.set()
    collector.join()
    note("end", jid)


@job(name="Async")
async def asynchronous(seconds: float) -> None:
    jid = begin()
    try:
        if not again():
            await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        note("cancelled", jid)
        raise
    note("end", jid)


@job(name="Wrapping")
def wrapping(seconds: float) -> None:
    """Turns any interruption into an error of its own."""
    jid = begin()
    until = time.monotonic() + seconds
    try:
        while not again() and time.monotonic() < until:
            time.sleep(0.02)
    except BaseException as error:
        raise ValueError("wrapped") from error
    note("end", jid)


@job(name="Cleaning")
def cleaning(seconds: float) -> None:
    """Its own clean-up still runs at an interruption."""
    jid = begin()
    until = time.monotonic() + seconds
    try:
        while not again() and time.monotonic() < until:
            time.sleep(0.02)
    finally:
        note("cleaned", jid)
    note("end", jid)


@job(name="Stubborn")
def stubborn(seconds: float) -> None:
    """Swallows any interruption, and continues."""
    jid = begin()
    until = time.monotonic() + seconds
    while not again() and time.monotonic() < until:
        with suppress(BaseException):
            time.sleep(0.02)
    note("end", jid)


@job(name="BlockingAsync")
async def blocking_asynchronous() -> None:
    """Holds the event loop, so that it cannot even be cancelled."""
    jid = begin()
    if not again():
        threading.Event().wait()
    note("end", jid)


@job(name="StubbornAsync")
async def stubborn_asynchronous(seconds: float) -> None:
    jid = begin()
    until = time.monotonic() + seconds
    while not again() and time.monotonic() < until:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.02)
    note("end", jid)


@job(name="Failing", retry_in=lambda *_: 3600)  # once in a test, also in a slow one
def failing(seconds: float = 0.0) -> None:
    begin()
    time.sleep(seconds)
    raise RuntimeError("it fails")


@job(name="Two")
def two(first: int, second: int) -> None:
    note("end", current_job().jid, first + second)
