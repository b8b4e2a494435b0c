"""The quarantine: jobs that were set aside instead of deleted and can be restored for some days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.inspector.counted import Counted
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_place import JobPlace
from offsider.inspector.job_record import JobRecord
from offsider.inspector.removal import placing
from offsider.runtime.events import JobRemoved
from offsider.storage import quarantine
from offsider.storage.places import NOWHERE, Move, MoveResult, PlacedJob
from offsider.storage.quarantine import QuarantineEntry, Seen

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

    def __init__(self, stored: QuarantineEntry) -> None:
        super().__init__(stored.raw)
        self.id = stored.id
        self.where = stored.where
        self.score = stored.score
        self.at = stored.at
        self.until = stored.until
        self.how = stored.how


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

    def find(self, identifier: str) -> QuarantinedJob | None:
        """Return the job with this ID; None if it does not exist."""
        stored = quarantine.find(self._redis, identifier)
        return None if stored is None else QuarantinedJob(stored)

    def restore(self, identifier: str) -> bool:
        """Move a job back: to the tail of its queue, or into its set with its previous score.

        Returns False if it is no longer in quarantine.

        Raises:
            RedisRefused: its previous place has another type.
        """
        job = self.find(identifier)
        return job is not None and self._restore(job)

    def restore_all(self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None) -> int:
        """Restore the matching jobs, all by default; returns the number of restored jobs.

        Args:
            wanted: a filter or a count.
            budget_ms: approximate time limit; call again with the same `Counted` to continue.
        """
        done = {True: MoveResult.DONE, False: MoveResult.GONE}
        return self._act_on_all(wanted, lambda jobs: [done[self._restore(job)] for job in jobs], budget_ms)

    def delete(self, identifier: str) -> bool:
        """Delete a job permanently. Returns False if it is no longer in quarantine."""
        job = self.find(identifier)
        return job is not None and self._delete([job]) == [MoveResult.DONE]

    def delete_all(self, wanted: JobFilter | Counted | None = None, budget_ms: float | None = None) -> int:
        """Delete the matching jobs permanently; see `restore_all`."""
        return self._act_on_all(wanted, self._delete, budget_ms)

    def _restore(self, job: QuarantinedJob) -> bool:
        return quarantine.restore(
            placing(self._server, [(job.raw, job.where, job.score)]), job.id, job.where, job.score
        )

    def _delete(self, jobs: Sequence[QuarantinedJob]) -> list[MoveResult]:
        results = self._place.move([Move(job.id.encode()) for job in jobs], NOWHERE)
        for job, result in zip(jobs, results, strict=True):
            if result is MoveResult.DONE:
                removed = JobRemoved(job.raw, "quarantine", "delete", self._server.name)
                self._server.config.events.emit("job_removed", removed)
        return results

    def _record(self, stored: PlacedJob) -> QuarantinedJob:
        return QuarantinedJob(quarantine.parse(stored.id, stored.score, stored.head, stored.raw))

    def _identity(self, record: QuarantinedJob) -> bytes:
        return record.id.encode()

    def _seen(self, record: QuarantinedJob) -> Seen:
        return Seen(record.raw, score=record.score)
