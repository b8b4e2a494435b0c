"""Batch sizes for scans with a time budget, so that neither the server's other clients nor the caller wait long."""

from __future__ import annotations

import time
from collections.abc import Iterator

_STEP_SECONDS = 0.01
_SMALLEST, _BIGGEST = 50, 10_000


def steps(budget_ms: float, most: int | None = None) -> Iterator[int]:
    """Yield batch sizes until the time budget is used up; at least one.

    Each size is adapted to the duration of the previous batch, including the caller's work: about 10 ms per batch.

    Args:
        budget_ms: time budget of all batches in milliseconds.
        most: maximum number of matches that the caller wants; limits the batch size.
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
