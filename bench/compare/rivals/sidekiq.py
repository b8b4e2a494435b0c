"""Ruby's Sidekiq, the open source edition: Debian's, or the one that OFFSIDER_TEST_SIDEKIQ names.

The variable is the path of the program `sidekiq`, with `ruby` beside it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from bench.compare.contestant import APPS, Contestant

SIDEKIQ = os.environ.get("OFFSIDER_TEST_SIDEKIQ", "sidekiq")
RUBY = str(Path(SIDEKIQ).with_name("ruby"))


def _worker(_programs: Path, concurrency: int) -> Sequence[str | Path]:
    return (SIDEKIQ, "-r", APPS / "sidekiq_app.rb", "-c", str(concurrency), "-e", "production")


def _producer(_programs: Path) -> Sequence[str | Path]:
    return (RUBY, APPS / "sidekiq_drive.rb")


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
