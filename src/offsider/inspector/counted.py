"""The counted jobs of a bulk action: the action changes only these."""

from __future__ import annotations

import hashlib
import json
import secrets
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from offsider.inspector.job_filter import JobFilter
from offsider.storage import counted as stored
from offsider.storage.redis import Redis

_HEAD = "head"
_JOBS, _REFUSED = "jobs:", "refused:"


class Counted:
    """The result of `JobSet.count` and `Queue.count`; their bulk actions accept it instead of a filter.

    A digest of its payload identifies each job. A job that has changed or arrived since the count is not affected.

    Args:
        wanted: the filter that the jobs match.
        once: whether payloads are unique, so that a job seen twice counts once.

    Attributes:
        wanted: the filter that the jobs match.
        cursor: start of the next step, of the count or of the action; empty at the beginning and at the end.
        scanned: number of jobs read.
        at: start of the count, in epoch seconds.
        complete: whether the count is complete.
        finished: whether the action is finished.
        done: number of jobs changed by the action so far.
        refused: number of jobs that the action cannot change.
    """

    def __init__(self, wanted: JobFilter, *, once: bool, at: float = 0.0) -> None:
        self.wanted = wanted
        self.cursor = ""
        self.scanned = 0
        self.at = at
        self.complete = self.finished = False
        self.done = 0
        self._once = once
        self._total = self._parts = 0
        self._left: Counter[int] = Counter()
        self._new: dict[str, array[int]] = {_JOBS: array("Q"), _REFUSED: array("Q")}
        self._refused = 0

    def __len__(self) -> int:
        return self._total

    @property
    def refused(self) -> int:
        return self._refused

    @property
    def changed(self) -> int:
        """Number of jobs that changed or left after the count; final once `finished` is true."""
        return self._total - self.done - self._refused

    @property
    def under_way(self) -> bool:
        """Whether the action has started and is not finished."""
        return self.complete and not self.finished and bool(self.cursor)

    def add(self, raws: Iterable[bytes]) -> None:
        """Add jobs to the count."""
        for raw in raws:
            digest = _digest(raw)
            if not (self._once and digest in self._left):
                self._left[digest] += 1
                self._total += 1
                self._new[_JOBS].append(digest)

    def among(self, raws: Sequence[bytes]) -> list[int]:
        """Positions of the jobs in ``raws`` that are counted and still pending."""
        met = Counter[int]()
        found: list[int] = []
        for at, raw in enumerate(raws):
            digest = _digest(raw)
            if met[digest] < self._left[digest]:
                met[digest] += 1
                found.append(at)
        return found

    def record(self, done: Iterable[bytes], refused: Iterable[bytes] = (), gone: Iterable[bytes] = ()) -> None:
        """Record the outcome of the action for some jobs."""
        for raw in done:
            self.done += 1
            self._left[_digest(raw)] -= 1
        for raw in refused:
            self._refused += 1
            self._left[_digest(raw)] -= 1
            self._new[_REFUSED].append(_digest(raw))
        for raw in gone:
            self._left[_digest(raw)] -= 1

    # Storage between the confirmation page and the action

    @staticmethod
    def new_name() -> str:
        """Return a new random name for `keep`."""
        return secrets.token_hex(8)

    def keep(self, redis: Redis, name: str) -> None:
        """Store the changes since `read`; they expire after an hour."""
        head = {key: getattr(self, key) for key in ("cursor", "scanned", "at", "complete", "finished", "done")}
        parts = {f"{kind}{self._parts}": found.tobytes() for kind, found in self._new.items() if found}
        stored.keep(redis, name, {_HEAD: json.dumps(head).encode(), **parts})

    @classmethod
    def read(cls, redis: Redis, name: str, wanted: JobFilter, *, once: bool) -> Counted | None:
        """Read a stored count; None if it does not exist or has expired."""
        fields = stored.read(redis, name)
        if _HEAD not in fields:
            return None
        counted = cls(wanted, once=once)
        head: dict[str, Any] = json.loads(fields.pop(_HEAD))
        for key, value in head.items():
            setattr(counted, key, value)
        counted._parts = len(fields)
        counted._fill(fields)
        return counted

    def _fill(self, fields: dict[str, bytes]) -> None:
        jobs, refused = array("Q"), array("Q")
        for name, packed in fields.items():
            (jobs if name.startswith(_JOBS) else refused).frombytes(packed)
        self._left = Counter(dict.fromkeys(jobs, 1)) if self._once else Counter(jobs)
        self._total = self._left.total()
        self._left.subtract(refused)
        self._refused = len(refused)


def _digest(raw: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")
