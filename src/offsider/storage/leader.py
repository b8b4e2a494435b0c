"""Leader election, with the key of Sidekiq Enterprise: offsider and Ruby processes share one leader."""

from __future__ import annotations

from offsider.storage.redis import Redis
from offsider.storage.scripts import Script

LEAD = Script("lead")
STEP_DOWN = Script("step_down")


def lead(redis: Redis, identity: str, life_seconds: float) -> float:
    """Become or remain the leader. Returns 0, or the seconds until the lease of another leader can end.

    Args:
        identity: identity of the process.
        life_seconds: how long the lease lasts unless it is renewed.
    """
    left: int = redis.run(LEAD, [redis.keys.leader], [identity, int(life_seconds * 1000)])
    return left / 1000


def step_down(redis: Redis, identity: str) -> bool:
    """Release the lease. False if this process is not the leader."""
    return bool(redis.run(STEP_DOWN, [redis.keys.leader], [identity]))
