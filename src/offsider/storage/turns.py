"""Work of which one process at a time is enough: whoever holds the turn does it, the others ask again later."""

from __future__ import annotations

from offsider.storage.owners import LEASE
from offsider.storage.redis import Redis


def hold_turn(redis: Redis, name: str, holder: str, life_seconds: float) -> bool:
    """Take the turn, or prolong one's own; False when another has it.

    Args:
        name: of the work.
        holder: who asks, unique among all processes.
        life_seconds: how long it is kept without being asked for again.
    """
    return bool(redis.run(LEASE, [redis.keys.turn(name)], [holder, int(life_seconds * 1000)]))


def is_held(redis: Redis, name: str) -> bool:
    """Whether anybody has the turn now."""
    return bool(redis.call("EXISTS", redis.keys.turn(name)))
