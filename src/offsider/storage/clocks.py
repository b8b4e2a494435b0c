"""The server's clock, and the way to it."""

from __future__ import annotations

import time

from offsider.storage.redis import Redis


def look(redis: Redis) -> tuple[float, float]:
    """Epoch seconds by the server's clock in the middle of one round trip, and how many seconds that took."""
    started = time.perf_counter()
    seconds, microseconds = redis.call("TIME")
    return int(seconds) + int(microseconds) / 1_000_000, time.perf_counter() - started
