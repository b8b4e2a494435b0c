"""The quarantine: jobs that were set aside instead of deleted and can be restored for some days."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.inspector.counted import Counted, KeepsCounts
from offsider.inspector.job_record import JobRecord
from offsider.inspector.removal import placing
from offsider.inspector.scan import deadline
from offsider.runtime.events import JobRemoved
from offsider.storage import quarantine
from offsider.storage.quarantine import QuarantineEntry

_PAGE = 50


@dataclass(frozen=True, slots=True)
class QuarantinedJob(QuarantineEntry):
    """A job in quarantine.

    Attributes:
        id: ID of its entry in the quarantine.
        record: the job.
        raw: its stored bytes.
        where: its previous place: ``"retry"``, ``"schedule"``, ``"dead"`` or ``"queue:<name>"``.
        score: its score there, in epoch seconds; 0 in a queue.
        at: time at which it was quarantined, in epoch seconds.
        until: time at which it expires, in epoch seconds.
        how: action that quarantined it.
    """

    @property
    def record(self) -> JobRecord:
        return JobRecord(self.raw)


class Quarantine(KeepsCounts):
    """The jobs in quarantine. Iterating yields `QuarantinedJob`, latest first, and reads in pages.

    Args:
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._here = Installation.of(config)
        self._redis = self._here.redis

    def __len__(self) -> int:
        return quarantine.size(self._redis)

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
        return self._here.config.worker.quarantine_days

    def page(self, start: int, count: int, *, newest_first: bool = True) -> list[QuarantinedJob]:
        """Return one page of jobs, sorted by the time at which they were quarantined.

        Args:
            start: number of jobs to skip.
            count: maximum number of jobs.
            newest_first: latest first.
        """
        return [
            QuarantinedJob(*astuple(stored))
            for stored in quarantine.page(self._redis, start, count, newest_first=newest_first)
        ]

    def find(self, identifier: str) -> QuarantinedJob | None:
        """Return the job with this ID; None if it does not exist."""
        stored = quarantine.find(self._redis, identifier)
        return None if stored is None else QuarantinedJob(*astuple(stored))

    def restore(self, identifier: str) -> bool:
        """Move a job back: to the tail of its queue, or into its set with its previous score.

        Returns False if it is no longer in quarantine.
        """
        stored = quarantine.find(self._redis, identifier)
        if stored is None:
            return False
        return quarantine.restore(placing(self._here, [(stored.raw, stored.where, stored.score)]), stored)

    def count(self) -> Counted:
        """Count the jobs; `restore_all` and `delete_all` of the result change only these jobs."""
        counted = self._new_count()
        counted.add(quarantine.ids(self._redis))
        counted.complete = True
        return counted

    def restore_all(self, counted: Counted | None = None, budget_ms: float | None = None) -> int:
        """Restore the counted jobs, all by default; returns the number of restored jobs.

        Args:
            counted: the jobs; all by default.
            budget_ms: approximate time limit; call again with the same `Counted` to continue.
        """
        return self._act_on_all(counted, self.restore, budget_ms)

    def delete(self, identifier: str) -> bool:
        """Delete a job permanently. Returns False if it is no longer in quarantine."""
        stored = quarantine.find(self._redis, identifier)
        if stored is None or not quarantine.delete(self._redis, identifier):
            return False
        self._here.config.events.emit("job_removed", JobRemoved(stored.raw, "quarantine", "delete", self._here.server))
        return True

    def delete_all(self, counted: Counted | None = None, budget_ms: float | None = None) -> int:
        """Delete the jobs permanently; see `restore_all`."""
        return self._act_on_all(counted, self.delete, budget_ms)

    def _act_on_all(self, counted: Counted | None, act: Callable[[str], bool], budget_ms: float | None) -> int:
        counted = counted if counted is not None else self.count()
        ids, is_over = quarantine.ids(self._redis), deadline(budget_ms)
        meant = [ids[at] for at in counted.among(ids)]
        for number, identifier in enumerate(meant, 1):
            done = act(identifier.decode("utf-8", "replace"))
            counted.record(*(([identifier],) if done else ((), (), [identifier])))
            if number < len(meant) and is_over():
                counted.cursor = str(number)  # finished jobs are gone: the next step starts at the front
                return counted.done
        counted.cursor, counted.finished = "", True
        return counted.done
