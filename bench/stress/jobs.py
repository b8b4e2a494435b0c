"""The application of the stressed workers: jobs that record their effect, and pauses at random lines of the engine."""

from __future__ import annotations

import atexit
import os
import random
import sys
import threading
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any

from bench.scoreboard.ledger import VARIABLE, Ledger
from offsider import Config, RedisFailure, Reschedule, current_job, job
from offsider.worker import fetch

#: Environment variables of a worker.
SEED, LINES = "STRESS_SEED", "STRESS_LINES"
#: Tables of the ledger: errors that no fault explains, and threads that a worker left running at its end.
ERRORS, THREADS = "errors", "threads"
ENGINE = str(fetch.__path__[0]) + os.sep
MAX_DELAY_SECONDS = 0.05
ENGINE_THREADS = ("offsider-default-", "offsider-overrun")

ledger = Ledger(os.environ.get(VARIABLE, ""))


class ExpectedError(Exception):
    """Raised by jobs that fail on purpose."""


def configure(config: Config) -> None:
    config.error_handlers.append(note_error)
    atexit.register(note_threads)
    if lines := int(os.environ[LINES]):
        Pauses(os.environ[SEED], lines).install()


def note_error(error: BaseException, _context: Mapping[str, Any]) -> None:
    if not isinstance(error, (ExpectedError, RedisFailure)):
        ledger.count(ERRORS, type(error).__name__)


def note_threads() -> None:
    """Count the threads of the engine that still run one second after the worker has ended."""
    deadline = time.monotonic() + 1
    while (left := engine_threads()) and time.monotonic() < deadline:
        time.sleep(0.01)
    if left:
        ledger.count(THREADS, *left)


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
    ledger.ran(run.jid, run.interrupted_count)


class Pauses:
    """A trace function with a random generator per thread.

    Args:
        seed: seeds the generators, together with the name of the thread.
        lines: one of this number of lines gets a pause, on average.
    """

    def __init__(self, seed: str, lines: int) -> None:
        self._seed = seed
        self._odds = 1 / lines
        self._own = threading.local()

    def install(self) -> None:
        """Trace this thread and all threads that start later."""
        threading.settrace(self)
        sys.settrace(self)

    def __call__(self, frame: FrameType, _event: str, _arg: object) -> Any:
        return self._at_line if frame.f_code.co_filename.startswith(ENGINE) else None

    def _at_line(self, _frame: FrameType, event: str, _arg: object) -> Any:
        if event == "line":
            dice = self._dice()
            if dice.random() < self._odds:
                # Most pauses are short, since long ones everywhere would make every run slow.
                time.sleep(MAX_DELAY_SECONDS * dice.random() ** 4)
        return self._at_line

    def _dice(self) -> random.Random:
        try:
            found: random.Random = self._own.dice
        except AttributeError:
            found = self._own.dice = random.Random(f"{self._seed} {threading.current_thread().name}")
        return found
