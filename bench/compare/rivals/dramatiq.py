"""Dramatiq: one process of threads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.compare.contestant import Contestant


def _worker(programs: Path, concurrency: int) -> Sequence[str | Path]:
    return (programs / "dramatiq", "dramatiq_app", "-p", "1", "-t", str(concurrency), "--skip-logging")


CONTESTANTS = (
    Contestant(
        name="Dramatiq",
        app="dramatiq_app",
        rate=4_000,
        worker=_worker,
        environ={"dramatiq_queue_prefetch": "200"},
        settings="threads, prefetch 200",
        safety="acknowledged after the job; requeued after 60 s without heartbeat, when there is traffic",
        requirements=("dramatiq==2.2.1", "redis==8.1.0", "hiredis==3.5.0"),
    ),
)
