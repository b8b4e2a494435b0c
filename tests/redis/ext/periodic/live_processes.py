"""Live processes that declare periodic jobs, as readers see them."""

from __future__ import annotations

import json
import time

from offsider.ext.periodic.entry import Entry
from offsider.ext.periodic.store import PeriodicStore, digest_of
from offsider.storage import processes
from offsider.storage.activity import Activity
from offsider.storage.redis import Redis


def publish(redis: Redis, *entries: Entry, since: float = 1.0) -> None:
    """Publish entries as a process does that started at ``since``."""
    PeriodicStore(redis).publish(entries, since, time.time())
    beat(redis, since=since, periodic=digest_of(entries))


def beat(redis: Redis, *, since: float = 1.0, **info: str) -> None:
    """Register a process with this info."""
    processes.write(
        redis, f"host:{since:.0f}:abcdef", {"info": json.dumps(info), "busy": 0}, {}, Activity(), wire_version=8
    )
