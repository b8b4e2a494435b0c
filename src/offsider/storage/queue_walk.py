"""Walks through a queue in the order in which its jobs run, while other clients push, claim and delete jobs.

A position is the number of jobs passed, plus digests of the last of them: the number alone becomes wrong when a worker
takes a job. Pushes do not matter, because they add jobs at the other end. The walk visits every job that stays in the
queue at least once. It visits jobs twice if all jobs with a known digest have left the queue.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from offsider.storage import queues
from offsider.storage.redis import Redis

_LATEST = 12
_EARLIER = 8
_LOOK_BACK = 200
_LOOK_AHEAD = 100
_SEARCHED_AT_ONCE = 1_000
_WRITTEN = re.compile(r"([0-9]{1,15})((?:-[0-9a-f]{12}){0,20})")


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a walk.

    Attributes:
        passed: number of jobs passed, from the next job to run.
        marks: digests of passed jobs, latest last.
    """

    passed: int = 0
    marks: tuple[str, ...] = ()

    @classmethod
    def read(cls, written: str) -> Position:
        """Parse the output of `written`; anything else is the start of the queue."""
        match = _WRITTEN.fullmatch(written)
        return cls(int(match[1]), tuple(match[2].split("-")[1:])) if match else cls()

    @property
    def written(self) -> str:
        """Serialize to a text of a few hundred characters."""
        return "-".join((str(self.passed), *self.marks))

    def after(self, passed: int, seen: Sequence[bytes]) -> Position:
        """The position after jobs that were just read and are still in the queue."""
        latest = tuple(digest(raw) for raw in seen[-_LATEST:])
        return Position(passed, (*self.marks[-_EARLIER:], *latest)[-_EARLIER - _LATEST :])


def digest(raw: bytes) -> str:
    """Return the digest that identifies a payload."""
    return hashlib.blake2b(raw, digest_size=6).hexdigest()


def read_on(redis: Redis, key: str, place: Position, count: int) -> tuple[int, list[bytes]]:
    """Return the number of jobs before a position, and the next jobs; none at the end of the list.

    Args:
        key: key of a queue, or of any list in its format.
    """
    if not place.marks:
        return place.passed, queues.page(redis, key, place.passed, count)
    low = max(0, place.passed - _LOOK_BACK)
    known_part = place.passed - low + _LOOK_AHEAD
    window = queues.page(redis, key, low, known_part + count)
    found = _last_known(window[:known_part], place.marks)
    if found is None:
        start = _search_back(redis, key, low, place.marks)
        return start, queues.page(redis, key, start, count)
    return low + found + 1, window[found + 1 : found + 1 + count]


def _search_back(redis: Redis, key: str, high: int, marks: Collection[str]) -> int:
    """Find the position after the last known job; 0 if none is left."""
    while high:
        low = max(0, high - _SEARCHED_AT_ONCE)
        found = _last_known(queues.page(redis, key, low, high - low), marks)
        if found is not None:
            return low + found + 1
        high = low
    return 0


def _last_known(raws: Sequence[bytes], marks: Collection[str]) -> int | None:
    return next((at for at in range(len(raws) - 1, -1, -1) if digest(raws[at]) in marks), None)
