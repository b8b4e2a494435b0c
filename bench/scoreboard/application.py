"""The jobs that the workers of the scoreboard run. Each counts its effect in the ledger as its last act."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from bench.scoreboard.effects import VARIABLE, Effects
from offsider import Config, current_job, job
from offsider.core.clock import Clock

CLOCK = "SCOREBOARD_CLOCK_SECONDS"
ROLL_CALL_SECONDS = 30.0

effects = Effects(os.environ[VARIABLE])


def configure(config: Config) -> None:
    config.death_handlers.append(_death)
    if offset := float(os.environ.get(CLOCK, "0")):
        config.clock = ShiftedClock(offset)


class ShiftedClock(Clock):
    """A wall clock that is wrong by so many seconds; what measures durations stays right."""

    def __init__(self, offset_seconds: float) -> None:
        self._offset_seconds = offset_seconds

    def now(self) -> float:
        return super().now() + self._offset_seconds


def _death(payload: Mapping[str, Any], _error: BaseException | None) -> None:
    effects.count("deaths", payload.get("jid") or "none")


def ran() -> None:
    """Count the effect of the job that runs."""
    context = current_job()
    effects.ran(context.jid, context.interrupted_count)


@job(name="scoreboard.Work")
def work(_number: int = 0, ms: float = 0, _rest: str = "") -> None:
    """Takes a while."""
    if ms:
        time.sleep(ms / 1000)
    ran()


@job(name="scoreboard.AsyncWork")
async def async_work(_number: int = 0) -> None:
    """The same as a coroutine."""
    ran()


@job(name="scoreboard.Failing", retry=5)
def failing(_number: int = 0) -> None:
    """Fails, and has no effect."""
    effects.count("failed", current_job().jid)
    raise RuntimeError("it fails")


@job(name="scoreboard.Pill", retry=False)
def pill(ms: float) -> None:
    """Kills its process, as one that eats all memory would be killed."""
    effects.count("pill", current_job().jid)
    time.sleep(ms / 1000)
    os.kill(os.getpid(), signal.SIGKILL)


@job(name="scoreboard.RollCall", retry=False)
def roll_call(roll: str) -> None:
    """Holds its thread until the row has seen all threads hold one."""
    effects.count("present", roll)
    until = time.monotonic() + ROLL_CALL_SECONDS
    while not effects.read("dismissed", roll) and time.monotonic() < until:
        time.sleep(0.05)
