"""Writes what a process has counted of its runs: Sidekiq's metrics and the sums for monitoring, in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from offsider.core.series import Series
from offsider.storage import execution_metrics, fleet_metrics
from offsider.storage.execution_metrics import JobCounts
from offsider.storage.redis import Redis

logger = logging.getLogger("offsider")


def add(redis: Redis, counted: Sequence[JobCounts], series: Sequence[Series], now: float, *, wire_version: int) -> None:
    """Add to what is stored.

    Args:
        now: epoch seconds: the minute that the runs are counted in.

    Raises:
        RedisFailure: nothing was written, unless it says that this is not known.
    """
    at = datetime.fromtimestamp(now, UTC)
    commands = execution_metrics.commands_of(redis.keys, counted, at, wire_version=wire_version)
    commands += fleet_metrics.commands_of(redis.keys, series, now)
    if not commands:
        return
    replies = redis.pipeline([("MULTI",), *commands, ("EXEC",)])[-1]
    # Redis does not roll back: what it took must not be counted again, so a refusal is only told.
    for command, reply in zip(commands, replies, strict=True):
        if isinstance(reply, Exception):
            logger.error("the metrics in %s lost a count: %s", command[1], reply)
