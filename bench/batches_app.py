"""The jobs of the load test, with the extension for batches if ``OFFSIDER_BENCH_BATCHES`` is set."""

from __future__ import annotations

import os

from bench.load_app import anoop, noop
from offsider import Config
from offsider.ext.batches import Batches

__all__ = ["anoop", "configure", "noop"]


def configure(config: Config) -> None:
    """Install the extension if the variable is set."""
    if os.environ.get("OFFSIDER_BENCH_BATCHES"):
        config.use(Batches())
