"""Keys that have to expire by themselves, and those among them that never will.

Each says "somebody is at it" or "somebody lives" for a while. Without an expiry (restored from a dump that has lost
it, or made persistent by hand) it says so for ever: nobody sweeps, a dead owner keeps its jobs. The scheduler's lease
is not among them: its value tells when it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from offsider.storage.redis import Redis

_NEVER = -1


def stuck(redis: Redis, identities: Sequence[str]) -> list[str]:
    """The keys that should expire and do not.

    Args:
        identities: of the owners whose signs of life are looked at.
    """
    keys = redis.keys
    watched = [keys.sweep, keys.process_cleanup, *map(keys.alive, identities)]
    replies = redis.pipeline([("PTTL", key) for key in watched])
    return [key for key, left in zip(watched, replies, strict=True) if left == _NEVER]


def living(redis: Redis, identities: Sequence[str]) -> set[str]:
    """Those of the owners who have beaten lately."""
    replies = redis.pipeline([("EXISTS", redis.keys.alive(identity)) for identity in identities]) if identities else []
    return {identity for identity, there in zip(identities, replies, strict=True) if there}
