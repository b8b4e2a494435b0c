"""Memory of a server by family of keys."""

from __future__ import annotations

from offsider.config.installation import Installation
from offsider.storage.keyspace import KeyFamily, by_family


def memory_by_family(here: Installation, budget_seconds: float = 10.0) -> tuple[list[KeyFamily], bool]:
    """Scan the names of all keys, the largest family first; False if the time ran out before the end.

    Raises:
        RedisFailure: the server is unreachable, or forbids SCAN.
    """
    return by_family(here.redis, budget_seconds)
