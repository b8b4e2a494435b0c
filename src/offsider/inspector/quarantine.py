"""The quarantine: jobs that were set aside instead of deleted and can be restored for some days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import RedisRefused
from offsider.inspector.counted import Counted
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_place import JobPlace
from offsider.inspector.job_record import JobRecord
from offsider.inspector.removal import placing
from offsider.runtime.events import JobRemoved
from offsider.storage import quarantine
from offsider.storage.hashes import json_object, number_field, text_field
from offsider.storage.places import NOWHERE, QUEUES, Move, MoveResult, MoveTarget, PlacedJob
from offsider.storage.store_once import QUEUE

_PAGE = 50


class QuarantinedJob(JobRecord):
    """A job in quarantine.

    Attributes:
        id: ID of its entry in the quarantine.
        where: its previous place: ``"retry"``, ``"schedule"``, ``"dead"`` or ``"queue:<name>"``.
        score: its score there, in epoch seconds; 0 in a queue.
        at: time at which it was quarantined, in epoch seconds.
        until: time at which it expires, in epoch seconds.
        how: action that quarantined it.
    """

    def __init__(self, stored: PlacedJob) -> None:
        head = json_object(stored.head)
        super().__init__(stored.raw, score=number_field(head.get("score")))
        self.id = stored.id
        self.where = text_field(head.get("where"))
        self.at = number_field(head.get("at"))
        self.until = stored.score
        self.how = text_field(head.get("how"))

    @property
    def died_at(self) -> float | None:
        return self.score if self.where == "dead" else None

    @property
    def due_at(self) -> float | None:
        return self.score if self.where in {"retry", "schedule"} else None


class Quarantine(JobPlace[QuarantinedJob]):
    """The jobs in quarantine. Iterating yields `QuarantinedJob`, latest first, and reads in pages.

    Args:
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        super().__init__(Installation.of(config), "quarantine")

    def __iter__(self) -> Iterator[QuarantinedJob]:
        seen: set[str] = set()
        start = 0
        while page := self.page(start, _PAGE):
            fresh = [job for job in page if job.id not in seen]
            seen.update(job.id for job in fresh)
            before = len(self)
            yield from fresh
            # Jobs that the caller restored or deleted during the iteration move the others up.
            start = max(0, start + len(page) - max(0, before - len(self)))

    @property
    def days(self) -> int:
        """Retention of a job that is quarantined now: ``worker.quarantine_days``."""
        return self._server.config.worker.quarantine_days

    def page(self, start: int, count: int, *, newest_first: bool = True) -> list[QuarantinedJob]:
        """Return one page of jobs, sorted by the time at which they were quarantined.

        Args:
            start: number of jobs to skip.
            count: maximum number of jobs.
            newest_first: latest first.
        """
        return [*map(QuarantinedJob, quarantine.page(self._redis, start, count, newest_first=newest_first))]

    def entry(self, key: str) -> QuarantinedJob | None:
        """Return the job with this ID; None if it does not exist."""
        stored = quarantine.find(self._redis, key)
        return None if stored is None else QuarantinedJob(stored)

    def restore(self, job: QuarantinedJob) -> bool:
        """Move a job back: to the tail of its queue, or into its set with its previous score.

        Returns False if it is no longer in quarantine.

        Raises:
            RedisRefused: its previous place has another type.
        """
        redis = placing(self._server, [(job.raw, job.where, job.score)])
        is_queue = job.where.startswith(QUEUE)
        to = QUEUES if is_queue else MoveTarget("set", job.where)
        detail = job.where.removeprefix(QUEUE) if is_queue else repr(job.score)
        (moved,) = self._place.move([Move(job.id.encode(), detail=detail)], to, through=redis)
        if moved is MoveResult.REFUSED:
            raise RedisRefused(f"{job.where} has another type, so the job stays in quarantine", code="WRONGTYPE")
        return moved is MoveResult.DONE

    def restore_all(self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None) -> int:
        """Restore the matching jobs, all by default; returns the number of restored jobs.

        Args:
            wanted: a filter or a count.
            budget_ms: approximate time limit; call again with the same `Counted` to continue.
        """
        done = {True: MoveResult.DONE, False: MoveResult.GONE}
        return self._act_on_all(wanted, lambda jobs: [done[self.restore(job)] for job in jobs], budget_ms)

    def delete_each(self, records: Sequence[QuarantinedJob], how: str = "delete") -> list[MoveResult]:
        """Delete jobs without effects, which their removal from their places had, and return the result of each."""
        results = self._place.move([Move(job.id.encode()) for job in records], NOWHERE)
        for job, result in zip(records, results, strict=True):
            if result is MoveResult.DONE:
                removed = JobRemoved(job.raw, "quarantine", how, self._server.name)
                self._server.config.events.emit("job_removed", removed)
        return results

    def _record(self, stored: PlacedJob) -> QuarantinedJob:
        return QuarantinedJob(stored)

    def key_of(self, record: QuarantinedJob) -> str:
        """Return `QuarantinedJob.id`."""
        return record.id

    def _identity(self, record: QuarantinedJob) -> bytes:
        return record.id.encode()
