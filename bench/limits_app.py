"""The jobs of the load test under a concurrency limit, as ``OFFSIDER_BENCH_LIMIT`` has it."""

from __future__ import annotations

import os

from bench.load_app import anoop, noop
from offsider import Config
from offsider.ext.concurrency_limits import ConcurrencyLimits

__all__ = ["anoop", "configure", "noop"]


def configure(config: Config) -> None:
    """Empty: the extension is not installed. 0: it is, and the jobs have no limit."""
    limit = os.environ.get("OFFSIDER_BENCH_LIMIT", "")
    if limit:
        config.use(ConcurrencyLimits(limits={"bench.noop": int(limit)}))
