"""How late the scheduler is, by the clock of the server."""

from __future__ import annotations

from offsider.storage.redis import Redis


def scheduler_lag_seconds(redis: Redis) -> dict[str, float]:
    """For ``schedule`` and ``retry``: since when the job is due that is due longest, 0 when none is.

    Raises:
        RedisFailure: the server did not answer.
    """
    keys = redis.keys
    sets = {"schedule": keys.schedule, "retry": keys.retry}
    (seconds, microseconds), *firsts = redis.pipeline(
        [("TIME",), *(("ZRANGE", key, 0, 0, "WITHSCORES") for key in sets.values())]
    )
    now = int(seconds) + int(microseconds) / 1_000_000
    return {name: max(0.0, now - float(first[1])) if first else 0.0 for name, first in zip(sets, firsts, strict=True)}
