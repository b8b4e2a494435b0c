"""How far a look goes in one step, so that nobody waits for it: neither the server's other clients nor who asked."""

from __future__ import annotations

import time
from collections.abc import Iterator

_STEP_SECONDS = 0.01
_SMALLEST, _BIGGEST = 50, 10_000


def steps(budget_ms: float, most: int | None = None) -> Iterator[int]:
    """How many jobs to look at next, again and again until the time is used up; at least once.

    A step is measured by what the one before took, whoever asks for the next included: about 10 ms.

    Args:
        budget_ms: milliseconds for all of them.
        most: how many jobs are wanted at most; then a step is not much bigger.
    """
    ends = time.monotonic() + budget_ms / 1000
    biggest = _BIGGEST if most is None else min(_BIGGEST, max(_SMALLEST, 10 * most))
    step = _SMALLEST
    while True:
        started = time.monotonic()
        yield step
        now = time.monotonic()
        if now >= ends:
            return
        fitting = step * min(_STEP_SECONDS, ends - now) / max(now - started, 1e-6)
        step = max(_SMALLEST, min(int(fitting), 4 * step, biggest))
