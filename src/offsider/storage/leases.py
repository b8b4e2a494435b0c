"""Leases for work that one process at a time does; the other processes try again later.

The leader's lease has the key of Sidekiq Enterprise: offsider and Ruby processes share one leader.
"""

from __future__ import annotations

from offsider.storage.redis import Redis
from offsider.storage.scripts import Script

LEASE = Script("lease")


def acquire(redis: Redis, key: str, holder: str, life_seconds: float) -> float:
    """Acquire or renew the lease of a key. Returns 0, or the seconds until the lease of another holder can end.

    Args:
        key: key of the lease.
        holder: unique id of the caller.
        life_seconds: how long the lease lasts unless it is renewed.
    """
    left: int = redis.run(LEASE, [key], [holder, int(life_seconds * 1000)])
    return left / 1000


def renew(redis: Redis, key: str, holder: str, life_seconds: float) -> bool:
    """Renew the lease of a key with one command, on a full server too. False if it was lost.

    If another holder has it by now, its lease is prolonged once.
    """
    return bool(redis.call("GETEX", key, "PX", int(life_seconds * 1000)) == holder.encode())


def hold_lease(redis: Redis, name: str, holder: str, life_seconds: float) -> bool:
    """Acquire or renew the lease of some work. False if another process has it."""
    return acquire(redis, redis.keys.lease(name), holder, life_seconds) == 0


def release(redis: Redis, key: str, holder: str) -> bool:
    """Release the lease of a key. False if another holder, or none, has it."""
    return bool(redis.run(LEASE, [key], [holder, 0]) == 0)
