"""The ``offsider doctor`` check of unique jobs: a worker must free locks without a job."""

from __future__ import annotations

from collections.abc import Iterator

from offsider.config.installation import Installation
from offsider.core.wording import counted
from offsider.ext.unique import store
from offsider.ext.unique.reaper import LEASE
from offsider.inspector.doctor.finding import Finding, ok, warn
from offsider.storage import clocks
from offsider.storage.leases import is_held

OLD_SECONDS = 600.0


def check_unique(here: Installation) -> Iterator[Finding]:
    """Report old locks if no worker frees locks without a job."""
    redis = here.redis
    held = store.count(redis)
    if held and not is_held(redis, LEASE) and _are_old(next(store.pages(redis)), clocks.look(redis)[0]):
        yield warn(
            "unique",
            f"{counted(held, 'lock')} of unique jobs, some older than {OLD_SECONDS / 60:g} minutes, but no worker "
            "releases locks of jobs that no longer exist",
            why="such a lock blocks pushes of its job until it expires",
            fix="run a worker of this server with config.use(Unique()), or call Locks().reap()",
        )
    else:
        yield ok("unique", f"{counted(held, 'lock')} of unique jobs")


def _are_old(locks: list[store.Held], now: float) -> bool:
    return any(lock.moved_ms < (now - OLD_SECONDS) * 1000 for lock in locks)
