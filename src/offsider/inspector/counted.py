"""The counted jobs of a bulk action: the action changes only these."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_record import JobRecord

#: Values of a field that are counted one by one; jobs with further ones are counted as `OTHERS`.
MAX_VALUES = 5_000
OTHERS = "\N{HORIZONTAL ELLIPSIS}"
_STORED = ("cursor", "scanned", "at", "complete", "finished", "done")
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
        stop_at: the action stops after this many jobs, and can be continued; None: at the end.
        values: field of `JobFilter.values_of` -> number of counted jobs by value; see `MAX_VALUES`.
    """

    def __init__(self, wanted: JobFilter, *, once: bool, at: float = 0.0) -> None:
        self.wanted = wanted
        self.cursor = ""
        self.scanned = 0
        self.at = at
        self.complete = self.finished = False
        self.done = 0
        self.stop_at: int | None = None
        self.values: defaultdict[str, Counter[str]] = defaultdict(Counter)
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
        return self.complete and not self.finished and bool(self.cursor or self.done or self.refused)

    @property
    def room(self) -> int:
        """Number of jobs that the action may still change before it stops; see `stop_at`."""
        return self._total if self.stop_at is None else max(0, self.stop_at - self.done - self._refused)

    def add(self, jobs: Iterable[tuple[bytes, JobRecord]]) -> None:
        """Add jobs to the count, each with its identity."""
        left, new, values_of = self._left, self._new[_JOBS], self.wanted.values_of
        rows: list[tuple[str, ...]] = []
        names: Iterable[str] = ()
        for identity, record in jobs:
            digest = _digest(identity)
            if not (self._once and digest in left):
                left[digest] += 1
                new.append(digest)
                names = found = values_of(record)
                rows.append(tuple(found.values()))
        self._total += len(rows)
        for name, column in zip(names, zip(*rows, strict=True), strict=True):
            values = self.values[name]
            for value, number in Counter(column).items():
                values[value if value in values or len(values) < MAX_VALUES else OTHERS] += number

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

    # Storage between the steps of a count and of an action, see `JobCounts`

    def stored(self) -> dict[str, bytes]:
        """Return the fields that changed since `restored`."""
        head = {key: getattr(self, key) for key in (*_STORED, "values")}
        parts = {f"{kind}{self._parts}": found.tobytes() for kind, found in self._new.items() if found}
        return {_HEAD: json.dumps(head).encode(), **parts}

    @classmethod
    def restored(cls, fields: dict[str, bytes], wanted: JobFilter, *, once: bool) -> Counted:
        """Return a count with the fields of each `stored`."""
        counted = cls(wanted, once=once)
        head: dict[str, Any] = json.loads(fields.pop(_HEAD))
        counted.values |= {name: Counter(values) for name, values in head.pop("values").items()}
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
