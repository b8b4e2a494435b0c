"""Taskiq on a stream: faster than its list broker, which also dies after five idle seconds with redis-py 8."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.compare.contestant import Contestant


def _worker(programs: Path, concurrency: int) -> Sequence[str | Path]:
    limits = ("-w", "1", "--max-async-tasks", str(concurrency), "--log-level", "WARNING")
    return (programs / "taskiq", "worker", "taskiq_app:broker", *limits)


CONTESTANTS = (
    Contestant(
        name="Taskiq (stream)",
        app="taskiq_app",
        rate=3_300,
        worker=_worker,
        settings="asyncio with uvloop, no results",
        safety="acknowledged after the job; taken over after 10 min, when a new job arrives",
        requirements=(
            "taskiq==0.13.0",
            "taskiq-redis==1.2.4",
            "redis==8.1.0",
            "hiredis==3.5.0",
            "uvloop==0.23.0",
        ),
    ),
)
