"""Leases for work that one process at a time does; the other processes try again later.

The leader's lease has the key of Sidekiq Enterprise: offsider and Ruby processes share one leader.
"""

from __future__ import annotations

from offsider.storage.redis import Redis
from offsider.storage.scripts import Script

LEASE = Script("lease")
RELEASE_LEASE = Script("release_lease")


def acquire(redis: Redis, key: str, holder: str, life_seconds: float) -> float:
    """Acquire or renew the lease of a key. Returns 0, or the seconds until the lease of another holder can end.

    Args:
        key: key of the lease.
        holder: unique id of the caller.
        life_seconds: how long the lease lasts unless it is renewed.
    """
    left: int = redis.run(LEASE, [key], [holder, int(life_seconds * 1000)])
    return left / 1000


def hold_lease(redis: Redis, name: str, holder: str, life_seconds: float) -> bool:
    """Acquire or renew the lease of some work. False if another process has it."""
    return acquire(redis, redis.keys.lease(name), holder, life_seconds) == 0


def is_held(redis: Redis, name: str) -> bool:
    """Whether any process has the lease of some work now."""
    return bool(redis.call("EXISTS", redis.keys.lease(name)))


def lead(redis: Redis, identity: str, life_seconds: float) -> float:
    """Become or remain the leader; see `acquire`."""
    return acquire(redis, redis.keys.leader, identity, life_seconds)


def release(redis: Redis, key: str, holder: str) -> bool:
    """Release the lease of a key. False if another holder, or none, has it."""
    return bool(redis.run(RELEASE_LEASE, [key], [holder]))


def step_down(redis: Redis, identity: str) -> bool:
    """Release the leader's lease. False if this process is not the leader."""
    return release(redis, redis.keys.leader, identity)
