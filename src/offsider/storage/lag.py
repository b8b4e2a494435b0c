"""Scheduler lag, by the server's clock."""

from __future__ import annotations

from offsider.storage.redis import Redis


def scheduler_lag_seconds(redis: Redis) -> dict[str, float]:
    """How long the longest overdue job of ``schedule`` and of ``retry`` has been due; 0 if none is due.

    Raises:
        RedisFailure: the server did not reply.
    """
    keys = redis.keys
    sets = {"schedule": keys.schedule, "retry": keys.retry}
    (seconds, microseconds), *firsts = redis.pipeline(
        [("TIME",), *(("ZRANGE", key, 0, 0, "WITHSCORES") for key in sets.values())]
    )
    now = int(seconds) + int(microseconds) / 1_000_000
    return {name: max(0.0, now - float(first[1])) if first else 0.0 for name, first in zip(sets, firsts, strict=True)}
