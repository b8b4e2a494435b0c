"""Huey: one process of threads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.compare.contestant import Contestant


def _worker(programs: Path, concurrency: int) -> Sequence[str | Path]:
    return (programs / "huey_consumer", "huey_app.huey", "-k", "thread", "-w", str(concurrency), "-q")


CONTESTANTS = (
    Contestant(
        name="Huey",
        app="huey_app",
        rate=4_000,
        worker=_worker,
        settings="threads, no results",
        safety="a job leaves Redis before it runs",
        requirements=("huey==3.5.4", "redis==8.1.0", "hiredis==3.5.0"),
    ),
)
