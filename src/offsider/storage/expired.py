"""Counts expired jobs, by class, in the script that acknowledges them."""

from __future__ import annotations

from offsider.storage.effects import Effect
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Script

COUNT_EXPIRED = Script("count_expired")


def counting(keys: Keys, name: str) -> Effect:
    """Return the effect that counts an expired job. ``name``: its registered class; empty for other classes."""
    return Effect(COUNT_EXPIRED, [keys.expired], [name])


def counts(redis: Redis) -> dict[str, int]:
    """Return the number of expired jobs by class; classes that no worker knew are counted under an empty name."""
    found = redis.call("HGETALL", redis.keys.expired)
    return {name.decode("utf-8", "replace"): int(count) for name, count in zip(found[::2], found[1::2], strict=True)}
