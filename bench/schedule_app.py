"""The application of ``schedule.py``: a job that does nothing."""

from __future__ import annotations

from offsider import job


@job(name="bench.pass")
def nothing(*_: object) -> None:
    """Do nothing."""
