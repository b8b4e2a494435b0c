"""What all places have in common: reading in pages, scans, exact counts, and bulk actions on them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from offsider.config.installation import Installation
from offsider.core.errors import RedisRefused
from offsider.core.payload import use_msgspec
from offsider.inspector.counted import Counted
from offsider.inspector.job_filter import JobFilter, refuse_empty
from offsider.inspector.job_record import JobRecord
from offsider.inspector.removal import removing
from offsider.inspector.scan import Chunk, deadline, scan
from offsider.runtime.events import JobRemoved
from offsider.storage import quarantine
from offsider.storage.places import NOWHERE, Move, MoveResult, MoveTarget, Place, PlacedJob

R = TypeVar("R", bound=JobRecord)
#: Jobs of one script; in the middle of a long list each costs a walk through it.
_BATCH = 50
_READ_AT_ONCE = _TAKEN_AT_ONCE = 1_000
_FIND_MS = 1_000.0
#: Jobs of one step of a count are in memory at the same time.
_COUNT_MS = 100.0
#: Decoding so many jobs takes longer than the import of a faster decoder.
_MANY = 20_000
#: Reads of the same part of a list, while workers claim jobs and so change positions.
_TRIES = 3


class JobPlace(ABC, Generic[R]):
    """A list or set of jobs.

    Args:
        server: its server.
        where: its name, as in `offsider.storage.places.Place`.

    Attributes:
        is_unique: whether it holds the same payload once at most.
    """

    is_unique = True

    def __init__(self, server: Installation, where: str) -> None:
        self._server = server
        self._redis = server.redis
        self._place = Place(server.redis, where)
        self._where = where

    def __len__(self) -> int:
        return len(self._place)

    @abstractmethod
    def page(self, start: int, count: int, *, newest_first: bool = False) -> list[R]:
        """Return one page of jobs."""

    @abstractmethod
    def entry(self, key: str) -> R | None:
        """Return the job with a key of `key_of`; None if it is not found."""

    @abstractmethod
    def _record(self, stored: PlacedJob) -> R: ...

    def _identity(self, record: R) -> bytes:
        """Return what a count remembers of a job."""
        return record.raw

    def key_of(self, record: R) -> str:
        """Return the key to find a job there again."""
        return f"{record.position}|{record.key_part}"

    def scan(self, wanted: JobFilter, cursor: str = "", budget_ms: float = 100, most: int | None = None) -> Chunk[R]:
        """Scan for jobs within a time budget; a job may be returned twice.

        Args:
            wanted: the filter.
            cursor: cursor of the previous chunk; empty or unknown: start from the beginning.
            budget_ms: approximate time limit in milliseconds.
            most: approximate maximum number of matches.
        """

        def read(cursor: str, step: int) -> tuple[str, int, list[R]]:
            page = self._place.read(cursor, step, wanted.needle)
            jobs = map(self._record, page.jobs)
            return page.cursor, page.scanned, [*(jobs if wanted.empty else filter(wanted.matches, jobs))]

        return scan(read, len(self), cursor, budget_ms, most)

    def find_job(self, jid: str, budget_ms: float = math.inf) -> R | None:
        """Return the job with this ID; scans the whole place, or until the time budget is used up."""
        wanted, cursor, is_over = JobFilter(text=jid), "", deadline(budget_ms)
        while True:
            chunk = self.scan(wanted, cursor, min(budget_ms, _FIND_MS))
            found = next((record for record in chunk.entries if record.jid == jid), None)
            if found is not None or chunk.complete or is_over():
                return found
            cursor = chunk.cursor

    # Counts, which a bulk action acts on

    def count(self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None) -> Counted:
        """Count the matching jobs, all by default; a bulk action on the result changes only these jobs.

        Args:
            wanted: a filter, or an incomplete count to continue.
            budget_ms: approximate time limit; see `Counted.complete`.
        """
        now = self._server.config.clock.now()
        counted = wanted if isinstance(wanted, Counted) else Counted(wanted or JobFilter(), once=self.is_unique, at=now)
        is_over = deadline(budget_ms)
        if len(self) > _MANY:
            use_msgspec()
        while not counted.complete:
            step_ms = _COUNT_MS if budget_ms is None else min(_COUNT_MS, budget_ms)
            chunk = self.scan(counted.wanted, counted.cursor, step_ms)
            counted.add((self._identity(record), record) for record in _taken(chunk.entries))
            counted.scanned += chunk.scanned
            counted.cursor, counted.complete = chunk.cursor, chunk.complete
            if is_over():
                break
        return counted

    def _act_on_all(
        self,
        wanted: JobFilter | Counted | None,
        act: Callable[[list[R]], list[MoveResult]],
        budget_ms: float | None,
    ) -> int:
        """Count the jobs, unless they are counted, and change them in batches. Returns the number changed so far."""
        refuse_empty(wanted)
        counted = wanted if isinstance(wanted, Counted) else self.count(wanted)
        tries, is_over = 0, deadline(budget_ms)
        while True:
            page = self._place.read(counted.cursor, _READ_AT_ONCE, counted.wanted.needle)
            records = [*map(self._record, page.jobs)]
            pending = counted.among([*map(self._identity, records)])
            meant = pending[: counted.room]
            removed: set[int] = set()
            for first in range(0, len(meant), _BATCH):
                batch = meant[first : first + _BATCH]
                # Jobs removed before were closer to the next job, so the positions of the others have decreased.
                jobs = [page.jobs[at]._replace(position=page.jobs[at].position - len(removed)) for at in batch]
                results = act([*map(self._record, jobs)])
                removed.update(at for at, how in zip(batch, results, strict=True) if how is MoveResult.DONE)
                ends = [(self._identity(records[at]), how) for at, how in zip(batch, results, strict=True)]
                counted.record(*([one for one, how in ends if how is each] for each in self._ends()))
            if len(meant) < len(pending):  # the rest of this page stays pending
                if not counted.room:
                    return counted.done
                continue
            tries += 1
            if self._place.is_list and len(removed) < len(meant) and tries < _TRIES:
                continue  # workers claimed jobs, so that positions have changed: read again
            counted.cursor, tries = self._place.after(counted.cursor, page, removed), 0
            if not counted.cursor or is_over():
                counted.finished = not counted.cursor
                return counted.done

    def _ends(self) -> tuple[MoveResult, ...]:
        """The results after which a job is no longer pending; in a list an equal job may follow."""
        return (MoveResult.DONE, MoveResult.REFUSED, *(() if self._place.is_list else (MoveResult.GONE,)))

    # Removal

    def delete(self, record: R) -> bool:
        """Delete one job permanently. Returns False if it has left the place."""
        return self._take_one(record, self.delete_each)

    def quarantine(self, record: R) -> bool:
        """Move one job to the quarantine for ``worker.quarantine_days``. Returns False if it has left the place."""
        return self._take_one(record, self.quarantine_each)

    def delete_all(self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None) -> int:
        """Delete every matching job permanently, all by default, and return the number of deleted jobs.

        Args:
            wanted: a filter or a count.
            budget_ms: approximate time limit; call again with the same `Counted` to continue.
        """
        return self.clear() if wanted is None else self._act_on_all(wanted, self.delete_each, budget_ms)

    def quarantine_all(self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None) -> int:
        """Move every matching job to the quarantine for ``worker.quarantine_days``; see `delete_all`."""
        if wanted is None and self._place.is_list:  # jobs that are pushed from now on are behind the others
            return self._take_all(self.quarantine_each)
        return self._act_on_all(wanted, self.quarantine_each, budget_ms)

    def delete_each(self, records: Sequence[R], how: str = "delete") -> list[MoveResult]:
        """Delete jobs, and return the result of each."""
        return self._leave(records, [Move(one.raw, position=one.position or 0) for one in records], NOWHERE, how)

    def quarantine_each(self, records: Sequence[R]) -> list[MoveResult]:
        """Move jobs to the quarantine, and return the result of each."""
        now, days = self._server.config.clock.now(), self._server.config.worker.quarantine_days
        quarantine.trim(self._redis)
        moves = [
            quarantine.move_of(
                PlacedJob(one.raw, one.position or 0, one.score), self._origin(one), at=now, how="quarantine"
            )
            for one in records
        ]
        return self._leave(records, moves, quarantine.for_days(days), "quarantine")

    def clear(self) -> int:
        """Delete all jobs, and return their number."""
        has_effects = self._server.config.removal_effects or self._server.config.events.listened("job_removed")
        removed = self._take_all(lambda records: self.delete_each(records, "clear")) if has_effects else 0
        return removed + self._unlink()

    def _take_one(self, record: R, act: Callable[[list[R]], list[MoveResult]]) -> bool:
        """Act on a job. Returns False if it has left the place."""
        return act([record]) == [MoveResult.DONE]

    def _take_all(self, act: Callable[[list[R]], list[MoveResult]]) -> int:
        """Act on all jobs that are in the place now, from its beginning. Returns the number of removed jobs."""
        removed, left = 0, len(self)
        while left > 0 and (records := self.page(0, min(left, _TAKEN_AT_ONCE))):
            left -= len(records)
            removed += act(records).count(MoveResult.DONE)
        return removed

    def _unlink(self) -> int:
        """Delete all jobs that are left, of a set or queue without their effects."""
        return self._take_all(lambda records: self.delete_each(records, "clear"))

    def _leave(self, records: Sequence[R], moves: Sequence[Move], to: MoveTarget, how: str) -> list[MoveResult]:
        """Move jobs away, with the effects of their removal, and emit an event for each."""
        redis = removing(self._server, (record.raw for record in records), self._where, how)
        results = self._place.move(moves, to, through=redis)
        for record, result in zip(records, results, strict=True):
            if result is MoveResult.DONE:
                self._gone(record)
                removed = JobRemoved(record.raw, self._where, how, self._server.name)
                self._server.config.events.emit("job_removed", removed)
        if MoveResult.REFUSED in results:
            raise RedisRefused(
                f"the key of the {to.kind} has another type: jobs stay in {self._where}", code="WRONGTYPE"
            )
        return results

    def _origin(self, record: R) -> str:
        """Return the place to which a job returns from the quarantine."""
        del record
        return self._where

    def _gone(self, record: R) -> None:
        """Note a removed job."""


def _taken(records: list[R]) -> Iterator[R]:
    """Empty a list: decoded jobs that stay until its end are most of the work of the garbage collector."""
    records.reverse()
    while records:
        yield records.pop()
