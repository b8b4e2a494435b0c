"""offsider, as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.compare.contestant import Contestant


def _worker(programs: Path, concurrency: int) -> Sequence[str | Path]:
    return (programs / "offsider", "worker", "-r", "offsider_app", "-c", str(concurrency), "-e", "production")


CONTESTANTS = (
    Contestant(
        name="offsider",
        app="offsider_app",
        rate=30_000,
        worker=_worker,
        settings="threads, the defaults",
        safety="acknowledged after the job; another process takes over from a dead one",
        has_bulk=True,
        default_log=True,
    ),
)
