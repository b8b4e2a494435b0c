"""A unit of work that a thread runs since a given time."""

from __future__ import annotations

from offsider.worker.unit_of_work import UnitOfWork


def begun(queue: str, raw: bytes, started_at: float) -> UnitOfWork:
    """As a processor leaves it before it runs the job; ``started_at`` in epoch seconds."""
    unit = UnitOfWork(queue, raw)
    unit.started = True
    unit.started_at = started_at
    return unit
