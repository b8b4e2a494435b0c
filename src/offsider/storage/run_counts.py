"""Writes what a process has counted of its runs, in one transaction.

1. Sidekiq's metrics, and the sums for monitoring.
2. How many runs kept what was promised of their class.
3. How long its threads were busy, for its shard.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from offsider.core.series import Series
from offsider.storage import execution_metrics, fleet_metrics, shard_loads, slo_counts
from offsider.storage.execution_metrics import JobCounts
from offsider.storage.redis import Redis
from offsider.storage.shard_loads import Load

logger = logging.getLogger("offsider")


def add(
    redis: Redis,
    counted: Sequence[JobCounts],
    series: Sequence[Series],
    now: float,
    *,
    wire_version: int,
    load: Load | None = None,
    shard: str = "",
) -> None:
    """Add to what is stored.

    Args:
        now: epoch seconds: the minute that the runs are counted in.
        load: what the threads did in this time; None when nobody has looked.
        shard: the one that they serve.

    Raises:
        RedisFailure: nothing was written, unless it says that this is not known.
    """
    at = datetime.fromtimestamp(now, UTC)
    commands = execution_metrics.commands_of(redis.keys, counted, at, wire_version=wire_version)
    commands += fleet_metrics.commands_of(redis.keys, series, now)
    commands += slo_counts.commands_of(redis.keys, series, now)
    if load is not None:
        commands += shard_loads.commands_of(redis.keys, shard, load, now)
    if not commands:
        return
    replies = redis.pipeline([("MULTI",), *commands, ("EXEC",)])[-1]
    # Redis does not roll back: what it took must not be counted again, so a refusal is only told.
    for command, reply in zip(commands, replies, strict=True):
        if isinstance(reply, Exception):
            logger.error("the metrics in %s lost a count: %s", command[1], reply)
