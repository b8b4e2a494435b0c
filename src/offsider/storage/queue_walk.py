"""Walking through a queue, the next job to run first, while workers take jobs, others push, and some are deleted.

A place in a queue is a number of jobs passed, and a few of those jobs to know it by: a number alone is wrong as soon
as a worker has taken a job. New jobs come in at the far end and disturb nothing. A job that stays in the queue all the
time is met at least once; one is met twice when all the jobs that the place is known by have left the queue.
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
class Place:
    """How far a walk has come.

    Attributes:
        passed: how many jobs, counted from the one that runs next.
        marks: digests of jobs that were passed, the latest last.
    """

    passed: int = 0
    marks: tuple[str, ...] = ()

    @classmethod
    def read(cls, written: str) -> Place:
        """The place that `written` made; anything else is the beginning."""
        match = _WRITTEN.fullmatch(written)
        return cls(int(match[1]), tuple(match[2].split("-")[1:])) if match else cls()

    @property
    def written(self) -> str:
        """As text of a few hundred letters."""
        return "-".join((str(self.passed), *self.marks))

    def after(self, passed: int, seen: Sequence[bytes]) -> Place:
        """The place behind jobs that were just seen and are still there."""
        latest = tuple(digest(raw) for raw in seen[-_LATEST:])
        return Place(passed, (*self.marks[-_EARLIER:], *latest)[-_EARLIER - _LATEST :])


def digest(raw: bytes) -> str:
    """What a job is known by."""
    return hashlib.blake2b(raw, digest_size=6).hexdigest()


def read_on(redis: Redis, queue: str, place: Place, count: int) -> tuple[int, list[bytes]]:
    """The next jobs behind a place, and how many are before them; at the end of the queue there are none."""
    return read_on_list(redis, redis.keys.queue(queue), place, count)


def read_on_list(redis: Redis, key: str, place: Place, count: int) -> tuple[int, list[bytes]]:
    """The same of any list in the form of a queue."""
    if not place.marks:
        return place.passed, queues.page_of_list(redis, key, place.passed, count)
    low = max(0, place.passed - _LOOK_BACK)
    known_part = place.passed - low + _LOOK_AHEAD
    window = queues.page_of_list(redis, key, low, known_part + count)
    found = _last_known(window[:known_part], place.marks)
    if found is None:
        start = _search_back(redis, key, low, place.marks)
        return start, queues.page_of_list(redis, key, start, count)
    return low + found + 1, window[found + 1 : found + 1 + count]


def _search_back(redis: Redis, key: str, high: int, marks: Collection[str]) -> int:
    """Where to go on after a jump: behind the last known job, or from the beginning when none is left."""
    while high:
        low = max(0, high - _SEARCHED_AT_ONCE)
        found = _last_known(queues.page_of_list(redis, key, low, high - low), marks)
        if found is not None:
            return low + found + 1
        high = low
    return 0


def _last_known(raws: Sequence[bytes], marks: Collection[str]) -> int | None:
    return next((at for at in range(len(raws) - 1, -1, -1) if digest(raws[at]) in marks), None)
