"""SAQ: one process with an event loop. It imports typing_extensions and does not declare it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.compare.contestant import Contestant


def _worker(programs: Path, _concurrency: int) -> Sequence[str | Path]:
    return (programs / "saq", "saq_app.settings", "--quiet")


CONTESTANTS = (
    Contestant(
        name="SAQ",
        app="saq_app",
        rate=2_100,
        worker=_worker,
        settings="asyncio, no results",
        safety="running jobs of a dead worker are aborted by a sweep after 60 s (no retries by default)",
        requirements=("saq==0.26.4", "redis==7.4.1", "hiredis==3.5.0", "typing_extensions==4.16.0"),
    ),
)
