"""RQ: the worker that does not fork for each job, which is its fastest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.compare.contestant import Contestant


def _worker(programs: Path, concurrency: int) -> Sequence[str | Path]:
    simple = ("-q", "-w", "rq.worker.SimpleWorker", "-u")
    pool = ("worker-pool", "bench", "-n", str(concurrency)) if concurrency > 1 else ("worker", "bench")
    return ("sh", "-c", 'exec "$0" "$@" "$REDIS_URL"', programs / "rq", *pool, *simple)


CONTESTANTS = (
    Contestant(
        name="RQ (SimpleWorker)",
        app="rq_app",
        rate=400,
        worker=_worker,
        settings="one job at a time in a process, as many processes as the concurrency; results deleted at once",
        safety="a job whose worker died is marked as failed by a later one",
        requirements=("rq==2.12.0", "redis==8.1.0", "hiredis==3.5.0"),
        has_bulk=True,
        runs_one=True,
        gap_ms=20,
    ),
)
