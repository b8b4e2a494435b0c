"""The jobs that the workers of the scoreboard run. Each counts its effect in the ledger as its last act."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from bench.scoreboard import crash, shifted_clock, stuck, ticking
from bench.scoreboard.effects import VARIABLE, Effects
from bench.scoreboard.processes import name_of
from offsider import Config, Discard, Reschedule, current_job, job
from offsider.runtime.events import JobPoisoned

ROLL_CALL_SECONDS = 30.0

effects = Effects(os.environ[VARIABLE])
_told: dict[str, int] = {}


def configure(config: Config) -> None:
    crash.install(effects)
    config.on("job_poisoned", _poisoned)
    config.death_handlers.append(_death)
    ticking.install(config)
    if offset := float(os.environ.get(shifted_clock.VARIABLE, "0")):
        config.clock = shifted_clock.ShiftedClock(offset)


def _death(payload: Mapping[str, Any], _error: BaseException | None) -> None:
    effects.count("deaths", payload.get("jid") or "none")


def _poisoned(news: JobPoisoned) -> None:
    effects.count("poisoned", json.loads(news.raw)["jid"])


def is_first_run() -> bool:
    context = current_job()
    return context.interrupted_count == 0 and context.attempt == 1


def ran() -> None:
    """Count the effect of the running job."""
    context = current_job()
    effects.ran(context.jid, context.interrupted_count)


@job(name="scoreboard.Work")
def work(_number: int = 0, ms: float = 0, _rest: str = "") -> None:
    """Sleep."""
    if ms:
        time.sleep(ms / 1000)
    ran()
    if os.getpid() != _told.get("pid"):
        _told["pid"] = os.getpid()
        effects.count("processes", name_of(os.getpid()))


@job(name="scoreboard.Timed")
def timed(_number: int, ms: float) -> None:
    """Note the time since the push, in milliseconds, then sleep."""
    effects.note("waits", int(time.time() * 1000 - current_job().payload.get("enqueued_at", 0)))
    time.sleep(ms / 1000)
    ran()


@job(name="scoreboard.AsyncWork")
async def async_work(_number: int = 0) -> None:
    """Do the same as a coroutine."""
    ran()


@job(name="scoreboard.Failing", retry=5)
def failing(_number: int = 0) -> None:
    """Fail without an effect."""
    effects.count("failed", current_job().jid)
    raise RuntimeError("it fails")


@job(name="scoreboard.Pill", retry=False)
def pill(ms: float) -> None:
    """Kill the process, as the kernel does when memory is exhausted."""
    effects.count("pill", current_job().jid)
    time.sleep(ms / 1000)
    os.kill(os.getpid(), signal.SIGKILL)


@job(name="scoreboard.RollCall", retry=False)
def roll_call(roll: str) -> None:
    """Occupy the thread until the row has seen one such job in every thread."""
    effects.count("present", roll)
    until = time.monotonic() + ROLL_CALL_SECONDS
    while not effects.read("dismissed", roll) and time.monotonic() < until:
        time.sleep(0.05)


@job(name="scoreboard.Hold")
def hold(_number: int = 0, _ms: float = 0) -> None:
    """Block until the process dies; after an interruption, count the effect at once."""
    context = current_job()
    if context.interrupted_count == 0:
        effects.count("held", context.jid)
        time.sleep(600)
    if context.interrupted_count > 1:
        effects.count("again", context.jid)
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
    if not effects.read("put_off", jid):
        effects.count("put_off", jid)
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
    if effects.server_time() < at - 1:
        effects.count("early", current_job().jid)
    ran()


@job(name=ticking.JOB)
def tick() -> None:
    """A periodic job."""
    ticking.note(effects)


@job(name="scoreboard.Marked")
def marked(number: int) -> None:
    """Count its number as well, because its jid may be missing."""
    effects.count("marked", str(int(number)))
    ran()


@job(name="scoreboard.Stuck")
def hang(kind: str) -> None:
    """Hang at the first run, in the given way."""
    if is_first_run():
        effects.count("stuck", kind)
        try:
            stuck.WAYS[kind]()
        except BaseException:
            effects.count("landed", kind)
            raise
    ran()


@job(name="scoreboard.StuckAsync")
async def hang_async() -> None:
    """Hang at the first run, in an await."""
    if is_first_run():
        effects.count("stuck", "asyncio")
        try:
            await asyncio.sleep(stuck.SECONDS)
        except BaseException:
            effects.count("landed", "asyncio")
            raise
    ran()
