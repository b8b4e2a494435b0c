"""offsider with its default settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.compare.contestant import Contestant


def _worker(programs: Path, concurrency: int) -> Sequence[str | Path]:
    return (programs / "offsider", "worker", "-r", "offsider_app", "-c", str(concurrency), "-e", "production")


def _swarm(programs: Path, concurrency: int, processes: int) -> Sequence[str | Path]:
    return (*_worker(programs, concurrency), "--processes", str(processes))


CONTESTANTS = (
    Contestant(
        name="offsider",
        app="offsider_app",
        rate=30_000,
        worker=_worker,
        swarm=_swarm,
        settings="threads, the defaults; two processes with --processes 2, unless each is pinned",
        safety="acknowledged after the job; another process takes over from a dead one",
        has_bulk=True,
        has_async_push=True,
        default_log=True,
    ),
)
