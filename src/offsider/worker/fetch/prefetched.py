"""Claimed jobs that no thread has taken yet."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.storage.working import Owner
    from offsider.worker.unit_of_work import UnitOfWork


class Prefetched:
    """The prefetched jobs of one capsule.

    Attributes:
        ready: the jobs in the order of their runs. A job is removed only by one atomic pop.
        surplus: jobs that must not run here, for example of a queue that was paused after the pop started. A thread
            without locks requeues them.
        low: when this number of jobs remains, a thread sends the next request before it takes one; -1 for never.
        rapid: jobs take so little time that one thread runs several of them before another thread wakes up.
    """

    def __init__(self) -> None:
        self.ready: deque[UnitOfWork] = deque()
        self.surplus: deque[UnitOfWork] = deque()
        self.low = -1
        self.rapid = False

    def waits_since(self, moment: float) -> bool:
        """Return whether the next job was claimed before this moment, in monotonic seconds."""
        try:
            return self.ready[0].claimed_at < moment
        except IndexError:
            return False

    def take_last(self, keep: int) -> list[UnitOfWork]:
        """Take the jobs that were claimed last, except for ``keep`` older ones; oldest first."""
        taken: list[UnitOfWork] = []
        with suppress(IndexError):
            while len(self.ready) > keep:
                taken.append(self.ready.pop())
        return taken[::-1]

    def take_of(self, owner: Owner) -> list[UnitOfWork]:
        """Take all jobs of this owner; jobs of other owners stay."""
        taken = take_all(self.ready)
        self.ready.extend(unit for unit in taken if unit.owner != owner)
        return [unit for unit in taken if unit.owner == owner]


def take_all(units: deque[UnitOfWork]) -> list[UnitOfWork]:
    taken: list[UnitOfWork] = []
    with suppress(IndexError):
        while True:
            taken.append(units.popleft())
    return taken
