"""What ``offsider doctor`` says about locks: that somebody looks after those whose job may be nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsider.core.wording import counted
from offsider.ext.unique import store
from offsider.ext.unique.reaper import TURN
from offsider.inspector.doctor.finding import Finding, ok, warn
from offsider.storage import clocks
from offsider.storage.turns import is_held

if TYPE_CHECKING:
    from offsider.wiring.config import Config

OLD_SECONDS = 600.0


def check_unique(config: Config) -> Iterator[Finding]:
    """Is there a worker that frees the locks of jobs that are nowhere?"""
    redis = config.shared_redis()
    held = store.count(redis)
    if held and not is_held(redis, TURN) and _are_old(next(store.pages(redis)), clocks.look(redis)[0]):
        yield warn(
            "unique",
            f"{counted(held, 'lock')} of unique jobs are held, some for over {OLD_SECONDS / 60:g} minutes, and no "
            "worker looks for those whose job is nowhere",
            why="such a lock keeps its job from being pushed until it ends by itself",
            way_out="run a worker of this server with config.use(Unique()), or free them: Locks().reap()",
        )
    else:
        yield ok("unique", f"{counted(held, 'lock')} of unique jobs")


def _are_old(locks: list[store.Held], now: float) -> bool:
    return any(lock.moved_ms < (now - OLD_SECONDS) * 1000 for lock in locks)
