"""The server's clock and the round-trip time."""

from __future__ import annotations

import time

from offsider.storage.redis import Redis


def look(redis: Redis) -> tuple[float, float]:
    """Return the server's time (epoch seconds) in the middle of a round trip, and its duration in seconds."""
    started = time.perf_counter()
    seconds, microseconds = redis.call("TIME")
    return int(seconds) + int(microseconds) / 1_000_000, time.perf_counter() - started
