"""Finds keys that should expire and lack an expiry, and owners whose liveness key exists.

Each key is a lease or a sign of life. A key can lose its expiry, for example in a restore from a dump, or by PERSIST.
It then blocks forever: no process sweeps, or a dead owner keeps its jobs. The scheduler's lease is not checked: its
value contains its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from offsider.storage.redis import Redis

_NEVER = -1


def stuck(redis: Redis, identities: Sequence[str]) -> list[str]:
    """Return the keys that should expire and do not.

    Args:
        identities: owners whose liveness keys are checked.
    """
    keys = redis.keys
    watched = [keys.sweep, keys.process_cleanup, *map(keys.alive, identities)]
    replies = redis.pipeline([("PTTL", key) for key in watched])
    return [key for key, left in zip(watched, replies, strict=True) if left == _NEVER]


def living(redis: Redis, identities: Sequence[str]) -> set[str]:
    """Return the owners whose liveness key exists."""
    replies = redis.pipeline([("EXISTS", redis.keys.alive(identity)) for identity in identities]) if identities else []
    return {identity for identity, there in zip(identities, replies, strict=True) if there}
