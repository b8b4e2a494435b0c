"""Leases for work that one process at a time does; the other processes try again later."""

from __future__ import annotations

from offsider.storage.owners import LEASE
from offsider.storage.redis import Redis


def hold_lease(redis: Redis, name: str, holder: str, life_seconds: float) -> bool:
    """Acquire or renew the lease. False if another process has it.

    Args:
        name: name of the work.
        holder: unique id of the caller.
        life_seconds: how long the lease lasts unless it is renewed.
    """
    return bool(redis.run(LEASE, [redis.keys.lease(name)], [holder, int(life_seconds * 1000)]))


def is_held(redis: Redis, name: str) -> bool:
    """Whether any process has the lease now."""
    return bool(redis.call("EXISTS", redis.keys.lease(name)))
