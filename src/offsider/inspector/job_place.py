"""What all places have in common: reading in pages, scans, exact counts, and bulk actions on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from offsider.config.installation import Installation
from offsider.core.errors import RedisRefused
from offsider.inspector.counted import Counted
from offsider.inspector.job_filter import JobFilter, refuse_empty
from offsider.inspector.job_record import JobRecord
from offsider.inspector.removal import removing
from offsider.inspector.scan import Chunk, deadline, scan
from offsider.runtime.events import JobRemoved
from offsider.storage import quarantine
from offsider.storage.places import NOWHERE, Destination, Move, MoveResult, Place, PlacedJob
from offsider.storage.quarantine import Seen

R = TypeVar("R", bound=JobRecord)
#: Jobs of one script; in the middle of a long list each costs a walk through it.
_BATCH = 50
_READ_AT_ONCE = _CLEARED_AT_ONCE = 1_000
#: Jobs of one step of a count are in memory at the same time.
_COUNT_MS = 100.0
#: Reads of the same part of a list, while workers claim jobs and so change positions.
_TRIES = 3


class JobPlace(ABC, Generic[R]):
    """A list or set of jobs.

    Args:
        server: its server.
        where: its name, as in `offsider.storage.places.Place`.
    """

    #: Whether its jobs are unique.
    _once = True

    def __init__(self, server: Installation, where: str) -> None:
        self._server = server
        self._redis = server.redis
        self._place = Place(server.redis, where)

    def __len__(self) -> int:
        return len(self._place)

    @abstractmethod
    def page(self, start: int, count: int, *, newest_first: bool = False) -> list[R]:
        """Return one page of jobs."""

    @abstractmethod
    def _record(self, stored: PlacedJob) -> R: ...

    def _identity(self, record: R) -> bytes:
        """Return what a count remembers of a job."""
        return record.raw

    def key_of(self, record: R) -> str:
        """Return the key to find a job there again."""
        return f"{record.position}|{record.key_part}"

    @abstractmethod
    def _seen(self, record: R) -> Seen:
        """Return a job with the place where it was seen, for a move."""

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
            return page.cursor, page.scanned, [*filter(wanted.matches, map(self._record, page.jobs))]

        return scan(read, len(self), cursor, budget_ms, most)

    # Counts, which a bulk action acts on

    def count(self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None) -> Counted:
        """Count the matching jobs, all by default; a bulk action on the result changes only these jobs.

        Args:
            wanted: a filter, or an incomplete count to continue.
            budget_ms: approximate time limit; see `Counted.complete`.
        """
        now = self._server.config.clock.now()
        counted = wanted if isinstance(wanted, Counted) else Counted(wanted or JobFilter(), once=self._once, at=now)
        is_over = deadline(budget_ms)
        while not counted.complete:
            step_ms = _COUNT_MS if budget_ms is None else min(_COUNT_MS, budget_ms)
            chunk = self.scan(counted.wanted, counted.cursor, step_ms)
            counted.add(map(self._identity, chunk.entries))
            counted.scanned += chunk.scanned
            counted.cursor, counted.complete = chunk.cursor, chunk.complete
            if is_over():
                break
        return counted

    def counted(self, name: str, wanted: JobFilter) -> Counted | None:
        """Read a stored count; None if it does not exist or has expired."""
        return Counted.read(self._redis, name, wanted, once=self._once)

    def keep(self, counted: Counted, name: str) -> None:
        """Store a count for an hour, so that another process can act on it."""
        counted.keep(self._redis, name)

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
            meant = counted.among([*map(self._identity, records)])
            removed: set[int] = set()
            for first in range(0, len(meant), _BATCH):
                batch = meant[first : first + _BATCH]
                # Jobs removed before were closer to the next job, so the positions of the others have decreased.
                jobs = [page.jobs[at]._replace(position=page.jobs[at].position - len(removed)) for at in batch]
                results = act([*map(self._record, jobs)])
                removed.update(at for at, how in zip(batch, results, strict=True) if how is MoveResult.DONE)
                ends = [(self._identity(records[at]), how) for at, how in zip(batch, results, strict=True)]
                counted.record(*([one for one, how in ends if how is each] for each in self._ends()))
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

    def clear(self) -> int:
        """Delete all jobs, and return their number."""
        removed, left = 0, 0
        if self._server.config.removal_effects or self._server.config.events.listened("job_removed"):
            left = len(self)
        while left > 0 and (records := self.page(0, min(left, _CLEARED_AT_ONCE))):
            left -= len(records)
            removed += self._remove(records, "clear").count(MoveResult.DONE)
        return removed + self._unlink()

    def _unlink(self) -> int:
        """Delete all jobs without their effects."""
        raise NotImplementedError

    def _set_aside(self, records: Sequence[R]) -> list[MoveResult]:
        """Move jobs to the quarantine."""
        now, days = self._server.config.clock.now(), self._server.config.worker.quarantine_days
        quarantine.trim(self._redis)
        moves = [quarantine.move_of(self._seen(each), self._place.name, at=now, how="quarantine") for each in records]
        return self._leave(records, moves, quarantine.for_days(days), "quarantine")

    def _remove(self, records: Sequence[R], how: str = "delete") -> list[MoveResult]:
        """Delete jobs."""
        moves = [Move(seen.raw, position=seen.position) for seen in map(self._seen, records)]
        return self._leave(records, moves, NOWHERE, how)

    def _leave(self, records: Sequence[R], moves: Sequence[Move], to: Destination, how: str) -> list[MoveResult]:
        """Move jobs away, with the effects of their removal, and emit an event for each."""
        redis = removing(self._server, (record.raw for record in records), self._place.name, how)
        results = self._place.move(moves, to, through=redis)
        for record, result in zip(records, results, strict=True):
            if result is MoveResult.DONE:
                self._gone(record)
                removed = JobRemoved(record.raw, self._place.name, how, self._server.name)
                self._server.config.events.emit("job_removed", removed)
        if MoveResult.REFUSED in results:
            raise RedisRefused(
                f"the key of the {to.kind} has another type: jobs stay in {self._place.name}", code="WRONGTYPE"
            )
        return results

    def _gone(self, record: R) -> None:
        """Note a removed job."""
