"""A unit of work that a thread runs since a given time."""

from __future__ import annotations

from offsider.worker.unit_of_work import UnitOfWork


def started_unit(queue: str, raw: bytes, started_at: float) -> tuple[UnitOfWork, float]:
    """What a processor passes to `WorkState.begin`; ``started_at`` in epoch seconds."""
    return UnitOfWork(queue, raw), started_at
