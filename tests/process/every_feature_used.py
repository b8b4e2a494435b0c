"""Runs the application of `every_feature` in other processes: its jobs and extensions would stay in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import redis

from offsider import Config
from offsider.config.installation import Installation
from offsider.ext.batches import Batches
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.limiters import Limiters
from offsider.ext.periodic import Periodic
from offsider.ext.results import Results
from offsider.ext.unique import Unique

ROOT = Path(__file__).resolve().parents[2]


def push_from_a_process(url: str) -> None:
    """Push all jobs from another process, which has the application's configuration."""
    subprocess.run(
        [sys.executable, "-c", "from tests.process.every_feature import push_all; push_all()"],
        env={**os.environ, "REDIS_URL": url, "PYTHONPATH": str(ROOT), "OFFSIDER_CLIENT_PUSH_TIMEOUT_SECONDS": "30"},
        check=True,
        timeout=60,
    )


def settled(stored: redis.Redis) -> bool:
    """Whether the worker has nothing to do now, apart from the jobs that run until they are cancelled."""
    kept = sum(stored.llen(key) for key in stored.scan_iter("offsider:working:*"))
    return stored.llen("queue:default") == 0 and kept <= 1


def here(url: str) -> Installation:
    """Return an installation with every extension."""
    config = Config()
    config.redis.url = url
    for extension in (Batches(), ConcurrencyLimits(), Limiters(), Results(), Unique(), Periodic()):
        config.use(extension)
    return Installation.of(config)
