"""Pauses at random lines of the engine, in the threads of a worker."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from types import FrameType
from typing import Any

from offsider.worker import fetch

#: Environment variables of a worker.
SEED, LINES = "STRESS_SEED", "STRESS_LINES"
#: Tables of the ledger: errors that no fault explains, and threads that a worker left running at its end.
ERRORS, THREADS = "errors", "threads"
ENGINE = str(fetch.__path__[0]) + os.sep
LONGEST_SECONDS = 0.05


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
                time.sleep(LONGEST_SECONDS * dice.random() ** 4)
        return self._at_line

    def _dice(self) -> random.Random:
        try:
            found: random.Random = self._own.dice
        except AttributeError:
            found = self._own.dice = random.Random(f"{self._seed} {threading.current_thread().name}")
        return found
