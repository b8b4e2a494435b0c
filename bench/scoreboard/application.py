"""The jobs that the workers of the scoreboard run. Each counts its effect in the ledger as its last act."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.compare.machine import process_name
from bench.scoreboard import clocks, crash, stuck
from bench.scoreboard.ledger import VARIABLE, Ledger
from offsider import Config, Discard, Reschedule, current_job, job
from offsider.runtime.events import JobPoisoned

ROLL_CALL_SECONDS = 30.0

ledger = Ledger(os.environ[VARIABLE])
_named: dict[str, int] = {}


def configure(config: Config) -> None:
    crash.install(ledger)
    config.on("job_poisoned", _poisoned)
    config.death_handlers.append(_death)
    clocks.install(config)


def _death(payload: Mapping[str, Any], _error: BaseException | None) -> None:
    ledger.count("deaths", payload.get("jid") or "none")


def _poisoned(news: JobPoisoned) -> None:
    ledger.count("poisoned", json.loads(news.raw)["jid"])


def is_first_run() -> bool:
    context = current_job()
    return context.interrupted_count == 0 and context.attempt == 1


def ran() -> None:
    """Count the effect of the running job."""
    context = current_job()
    ledger.ran(context.jid, context.interrupted_count)


@job(name="scoreboard.Work")
def work(_number: int = 0, ms: float = 0, _rest: str = "") -> None:
    """Sleep."""
    if ms:
        time.sleep(ms / 1000)
    ran()
    if os.getpid() != _named.get("pid"):
        _named["pid"] = os.getpid()
        ledger.count("processes", process_name(os.getpid()))


@job(name="scoreboard.Timed")
def timed(_number: int, ms: float) -> None:
    """Note the time since the push, in milliseconds, then sleep."""
    ledger.note("waits", int(time.time() * 1000 - current_job().payload.get("enqueued_at", 0)))
    time.sleep(ms / 1000)
    ran()


@job(name="scoreboard.AsyncWork")
async def async_work(_number: int = 0) -> None:
    """Do the same as a coroutine."""
    ran()


@job(name="scoreboard.Failing", retry=5)
def failing(_number: int = 0) -> None:
    """Fail without an effect."""
    ledger.count("failed", current_job().jid)
    raise RuntimeError("it fails")


@job(name="scoreboard.Pill", retry=False)
def pill(ms: float) -> None:
    """Kill the process, as the kernel does when memory is exhausted."""
    ledger.count("pill", current_job().jid)
    time.sleep(ms / 1000)
    os.kill(os.getpid(), signal.SIGKILL)


@job(name="scoreboard.RollCall", retry=False)
def roll_call(roll: str) -> None:
    """Occupy the thread until the row has seen one such job in every thread."""
    ledger.count("present", roll)
    until = time.monotonic() + ROLL_CALL_SECONDS
    while not ledger.get("dismissed", roll) and time.monotonic() < until:
        time.sleep(0.05)


@job(name="scoreboard.Hold")
def hold(_number: int = 0, _ms: float = 0) -> None:
    """Block until the process dies; after an interruption, count the effect at once."""
    context = current_job()
    if context.interrupted_count == 0:
        ledger.count("held", context.jid)
        time.sleep(600)
    if context.interrupted_count > 1:
        ledger.count("again", context.jid)
    ran()


@job(name="scoreboard.Flaky", retry=5)
def flaky() -> None:
    """Fail at the first attempt."""
    if current_job().attempt == 1:
        raise RuntimeError("the first time it fails")
    ran()


@job(name="scoreboard.Rescheduling")
def rescheduling() -> None:
    """Reschedule itself at the first run."""
    jid = current_job().jid
    if not ledger.get("put_off", jid):
        ledger.count("put_off", jid)
        raise Reschedule(0.01)
    ran()


@job(name="scoreboard.Discarding")
def discarding() -> None:
    """Discard itself after its effect."""
    ran()
    raise Discard("enough")


@job(name="scoreboard.Dying", retry=0)
def dying() -> None:
    """Fail, and never retry."""
    raise RuntimeError("it always fails")


@job(name="scoreboard.DyingBefore")
def dying_before() -> None:
    """Kill the first process before the effect."""
    if current_job().interrupted_count == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    ran()


@job(name="scoreboard.DyingAfter")
def dying_after() -> None:
    """Kill the first process after the effect, so that the job runs twice."""
    ran()
    if current_job().interrupted_count == 0:
        os.kill(os.getpid(), signal.SIGKILL)


@job(name="scoreboard.Due")
def due(at: float) -> None:
    """Count a run that is more than a second early, by the clock of the ledger's server."""
    if ledger.server_time() < at - 1:
        ledger.count("early", current_job().jid)
    ran()


@job(name=clocks.JOB)
def tick() -> None:
    """A periodic job."""
    clocks.note_tick(ledger)


@job(name="scoreboard.Marked")
def marked(number: int) -> None:
    """Count its number as well, because its jid may be missing."""
    ledger.count("marked", str(int(number)))
    ran()


@contextmanager
def noted(kind: str) -> Generator[None]:
    """Note the start of a hanging job, and the exception that ends it."""
    ledger.count("stuck", kind)
    try:
        yield
    except BaseException:
        ledger.count("interrupted", kind)
        raise


@job(name="scoreboard.Stuck")
def hang(kind: str) -> None:
    """Hang at the first run, in the given way."""
    if is_first_run():
        with noted(kind):
            stuck.WAYS[kind]()
    ran()


@job(name="scoreboard.StuckAsync")
async def hang_async() -> None:
    """Hang at the first run, in an await."""
    if is_first_run():
        with noted("asyncio"):
            await asyncio.sleep(stuck.SECONDS)
    ran()
