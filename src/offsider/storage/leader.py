"""Who leads: the key of Sidekiq Enterprise with the identity of a process, so that there is one leader for both."""

from __future__ import annotations

from offsider.storage.redis import Redis
from offsider.storage.scripts import Script

LEAD = Script("lead")
STEP_DOWN = Script("step_down")


def lead(redis: Redis, identity: str, life_seconds: float) -> float:
    """Become the leader, or stay it: 0, or the seconds until the lead of another may end.

    Args:
        identity: of the process.
        life_seconds: how long the lead lasts without being asked for again.
    """
    left: int = redis.run(LEAD, [redis.keys.leader], [identity, int(life_seconds * 1000)])
    return left / 1000


def step_down(redis: Redis, identity: str) -> bool:
    """Let another lead at once; False when it led already."""
    return bool(redis.run(STEP_DOWN, [redis.keys.leader], [identity]))
