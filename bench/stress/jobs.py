"""The application of the stressed workers: jobs that record their effect, and pauses at random lines of the engine."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from bench.scoreboard.effects import VARIABLE, Effects
from bench.stress.pauses import ERRORS, LINES, SEED, THREADS, Pauses
from offsider import Config, RedisFailure, Reschedule, current_job, job

ENGINE_THREADS = ("offsider-default-", "offsider-overrun")

effects = Effects(os.environ[VARIABLE])


class ExpectedError(Exception):
    """Raised by jobs that fail on purpose."""


def configure(config: Config) -> None:
    config.error_handlers.append(note_error)
    atexit.register(note_threads)
    Pauses(os.environ[SEED], int(os.environ[LINES])).install()


def note_error(error: BaseException, _context: Mapping[str, Any]) -> None:
    if not isinstance(error, (ExpectedError, RedisFailure)):
        effects.count(ERRORS, type(error).__name__)


def note_threads() -> None:
    """Count the threads of the engine that still run one second after the worker has ended."""
    deadline = time.monotonic() + 1
    while (left := engine_threads()) and time.monotonic() < deadline:
        time.sleep(0.01)
    if left:
        effects.count(THREADS, *left)


def engine_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(ENGINE_THREADS)]


@job(name="stress.Work", retry=25)
def work(ms: float, ending: str) -> None:
    """Sleep; fail or reschedule at the first attempt, depending on ``ending``."""
    if ms:
        time.sleep(ms / 1000)
    run = current_job()
    if ending == "fail" and run.attempt == 1:
        raise ExpectedError
    if ending == "again" and not run.rescheduled_count:
        raise Reschedule(0.01)
    effects.ran(run.jid, run.interrupted_count)
