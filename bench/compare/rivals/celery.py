"""Celery with both of its usual pools. Its transport imports packaging and does not declare it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.compare.contestant import Contestant

QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING")


def _worker(pool: str, programs: Path, concurrency: int) -> Sequence[str | Path]:
    return (programs / "celery", "-A", "celery_app", "worker", "-P", pool, "-c", str(concurrency), *QUIET)


def _contestant(pool: str) -> Contestant:
    return Contestant(
        name=f"Celery ({pool})",
        app="celery_app",
        rate=1_000,
        worker=partial(_worker, pool),
        settings="prefetch x 64, no results, without gossip, mingle and heartbeat",
        safety="acknowledged before the job runs (the default)",
        requirements=("celery==5.7.0", "redis==8.1.0", "hiredis==3.5.0", "packaging==26.3"),
    )


CONTESTANTS = (_contestant("threads"), _contestant("prefork"))
