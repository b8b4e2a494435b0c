"""Stores the count of a bulk action between confirmation and action, which different processes may serve."""

from __future__ import annotations

from collections.abc import Mapping

from offsider.storage.commands import run_together
from offsider.storage.redis import Redis

#: Expiry, from the last write.
KEEP_SECONDS = 60 * 60


def keep(redis: Redis, name: str, fields: Mapping[str, bytes]) -> None:
    """Write some fields of a count, and keep the others."""
    key, pairs = redis.keys.counted(name), [item for pair in fields.items() for item in pair]
    run_together(redis, ("HSET", key, *pairs), ("EXPIRE", key, KEEP_SECONDS))


def read(redis: Redis, name: str) -> dict[str, bytes]:
    """Read all fields of a count; empty if it does not exist or has expired."""
    reply = redis.call("HGETALL", redis.keys.counted(name))
    return {field.decode(): value for field, value in zip(reply[::2], reply[1::2], strict=True)}
