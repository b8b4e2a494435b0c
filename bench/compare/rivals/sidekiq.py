"""Ruby's Sidekiq, the open source edition as Debian packages it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.compare.contestant import APPS, Contestant


def _worker(_programs: Path, concurrency: int) -> Sequence[str | Path]:
    return ("sidekiq", "-r", APPS / "sidekiq_app.rb", "-c", str(concurrency), "-e", "production")


def _producer(_programs: Path) -> Sequence[str | Path]:
    return ("ruby", APPS / "sidekiq_drive.rb")


CONTESTANTS = (
    Contestant(
        name="Sidekiq (Ruby)",
        app="sidekiq_app",
        rate=10_000,
        worker=_worker,
        producer=_producer,
        settings="threads, the defaults",
        safety="a job leaves Redis before it runs",
        has_bulk=True,
        default_log=True,
        is_python=False,
    ),
)
