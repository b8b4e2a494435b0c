"""Sidekiq's counters: jobs processed and failed, in all and for each UTC day."""

from __future__ import annotations

import logging

from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

logger = logging.getLogger("offsider")

DAY_EXPIRY_SECONDS = 157_680_000  # five years, as Sidekiq keeps them


def add(redis: Redis, *, processed: int, failed: int, day: str) -> None:
    """Add to the counters; ``day`` is the UTC date ``YYYY-MM-DD``. Zeros are not written."""
    commands: list[Command] = []
    for name, count in (("processed", processed), ("failed", failed)):
        if count:
            daily = redis.keys.stat_day(name, day)
            commands += [
                ("INCRBY", redis.keys.stat(name), count),
                ("INCRBY", daily, count),
                ("EXPIRE", daily, DAY_EXPIRY_SECONDS),
            ]
    if commands:
        replies = redis.pipeline([("MULTI",), *commands, ("EXEC",)])[-1]
        # Redis does not roll back: what it took must not be counted again, so a refusal is only told.
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, Exception):
                logger.error("the counter %s lost %s: %s", command[1], command[2], reply)


def read(redis: Redis) -> tuple[int, int]:
    """Processed and failed, in all."""
    processed, failed = redis.pipeline([("GET", redis.keys.stat("processed")), ("GET", redis.keys.stat("failed"))])
    return int(processed or 0), int(failed or 0)
