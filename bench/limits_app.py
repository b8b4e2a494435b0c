"""The jobs of the load test with the concurrency limit ``OFFSIDER_BENCH_LIMIT``."""

from __future__ import annotations

import os

from bench.load_app import anoop, noop
from offsider import Config
from offsider.ext.concurrency_limits import ConcurrencyLimits

__all__ = ["anoop", "configure", "noop"]


def configure(config: Config) -> None:
    """Install the extension unless the variable is empty; 0 means no limit."""
    limit = os.environ.get("OFFSIDER_BENCH_LIMIT", "")
    if limit:
        config.use(ConcurrencyLimits(limits={"bench.noop": int(limit)}))
