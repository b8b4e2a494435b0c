"""The server's clock and the round-trip time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from offsider.core.clock import Clock
from offsider.storage.redis import Redis


class Comparison(NamedTuple):
    """A reading of the server's clock, beside a clock of this machine.

    Attributes:
        round_trip_seconds: duration of the round trip.
        now: epoch seconds by the server's clock.
        ahead_seconds: how far the server's clock is ahead of this machine's; negative if it is behind.
    """

    round_trip_seconds: float
    now: float
    ahead_seconds: float


def seconds_of(reply: Sequence[bytes]) -> float:
    """Return the epoch seconds of the reply to TIME."""
    seconds, microseconds = reply
    return int(seconds) + int(microseconds) / 1_000_000


def look(redis: Redis) -> tuple[float, float]:
    """Return the server's time (epoch seconds) in the middle of a round trip, and its duration in seconds."""
    started = time.perf_counter()
    now = seconds_of(redis.call("TIME"))
    return now, time.perf_counter() - started


def compare(redis: Redis, clock: Clock, *, times: int = 1) -> Comparison:
    """Return the fastest of ``times`` readings, which is the most precise one."""
    return min((_compare(redis, clock) for _ in range(times)), key=lambda reading: reading.round_trip_seconds)


def _compare(redis: Redis, clock: Clock) -> Comparison:
    now, took = look(redis)
    return Comparison(took, now, now - (clock.now() - took / 2))
