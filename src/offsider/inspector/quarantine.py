"""The quarantine: jobs that were put aside instead of deleted, and can be restored for some days."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from offsider.inspector.job_record import JobRecord
from offsider.storage import quarantine
from offsider.storage.quarantine import Quarantined
from offsider.wiring.config import Config
from offsider.wiring.default import default_config
from offsider.wiring.events import JobRemoved

_PAGE = 50


@dataclass(frozen=True, slots=True)
class QuarantinedJob:
    """A job that was put aside.

    Attributes:
        id: of its place in the quarantine.
        record: the job.
        where: where it was: ``"retry"``, ``"schedule"``, ``"dead"`` or ``"queue:<name>"``.
        score: the score it had there, in epoch seconds; 0 in a queue.
        at: epoch seconds at which it was put here.
        until: epoch seconds until which it is kept.
        how: what put it here.
    """

    id: str
    record: JobRecord = field(compare=False)
    where: str
    score: float
    at: float
    until: float
    how: str
    _stored: Quarantined = field(repr=False, compare=False)


class Quarantine:
    """Iterating gives `QuarantinedJob`, the one that was put here last first, in pages.

    Args:
        config: which server; default: this process's.
    """

    def __init__(self, config: Config | None = None) -> None:
        self._config = config if config is not None else default_config()
        self._redis = self._config.shared_redis()

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
            # Those that are restored or deleted by whoever looks make the others come up.
            start = max(0, start + len(page) - max(0, before - len(self)))

    @property
    def days(self) -> int:
        """How long a job that is put here now is kept: ``worker.quarantine_days``."""
        return self._config.worker.quarantine_days

    def page(self, start: int, count: int, *, newest_first: bool = True) -> list[QuarantinedJob]:
        """Some jobs, by the time at which they were put here.

        Args:
            start: how many to leave out.
            count: how many at most.
            newest_first: which end to begin at.
        """
        return [_job(stored) for stored in quarantine.page(self._redis, start, count, newest_first=newest_first)]

    def find(self, identifier: str) -> QuarantinedJob | None:
        """The job of this id; None when there is none."""
        stored = quarantine.find(self._redis, identifier)
        return None if stored is None else _job(stored)

    def restore(self, identifier: str) -> bool:
        """Move a job back to where it was: to the tail of its queue, or into its set with the score it had.

        False when it is not here any more.
        """
        stored = quarantine.find(self._redis, identifier)
        return stored is not None and quarantine.restore(self._redis, stored)

    def restore_all(self) -> int:
        """Move every job back, and answer how many."""
        return sum(quarantine.restore(self._redis, job._stored) for job in self)  # noqa: SLF001 - its own floor's value

    def delete(self, identifier: str) -> bool:
        """Delete a job for good. False when it is not here any more."""
        stored = quarantine.find(self._redis, identifier)
        if stored is None or not quarantine.delete(self._redis, identifier):
            return False
        self._config.events.emit("job_removed", JobRemoved(stored.raw, "quarantine", "delete", self._config.server))
        return True

    def delete_all(self) -> int:
        """Delete every job for good, and answer how many."""
        return sum(self.delete(job.id) for job in self)


def _job(stored: Quarantined) -> QuarantinedJob:
    return QuarantinedJob(
        id=stored.id,
        record=JobRecord(stored.raw),
        where=stored.where,
        score=stored.score,
        at=stored.at,
        until=stored.until,
        how=stored.how,
        _stored=stored,
    )
