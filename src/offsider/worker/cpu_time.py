"""Which runs have their CPU time measured: asking the kernel twice takes as long as a tenth of the shortest jobs.

Runs of a millisecond and more are all measured, of the shorter ones every sixteenth of each class.
"""

from __future__ import annotations

import time

SHORT_SECONDS = 0.001
EVERY = 16


class CpuTime:
    """Measures for one thread."""

    def __init__(self) -> None:
        #: Class -> how many of its runs are not measured from here on.
        self._left_out: dict[str, int] = {}

    def start(self, name: str) -> float | None:
        """Before a run of this class; the answer is for `seconds`."""
        left_out = self._left_out.get(name, 0)
        if left_out:
            self._left_out[name] = left_out - 1
            return None
        return time.thread_time()

    def seconds(self, name: str, started: float | None, duration_seconds: float) -> float | None:
        """After it: CPU seconds, or None when they were not measured."""
        if started is None:
            if duration_seconds >= SHORT_SECONDS:
                self._left_out.pop(name, None)
            return None
        measured = time.thread_time() - started
        if duration_seconds < SHORT_SECONDS:
            self._left_out[name] = EVERY - 1
        return measured
