"""Counts of a migration or its preview."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from offsider.core.errors import RedisFailure
from offsider.inspector.migration.judge import Judged, Moves, Stays, Why
from offsider.storage.job_sets import MoveResult

#: Undeclared classes that are counted by name; the jobs of all others are counted together.
_MOST_NAMES = 1_000
OTHERS = "…"


@dataclass(frozen=True, slots=True, order=True)
class Relocation:
    """Jobs of one class with the same old and new queue.

    Attributes:
        job_name: stored name of the jobs.
        where: ``"queue"``, ``"schedule"``, ``"retry"``, or ``"held"`` by an extension, such as jobs over the limit of
            their class. Held jobs stay held, unless they move to another server.
        from_server, from_queue: old queue, or for a scheduled job or a retry the queue that it names.
        to_server, to_queue: new queue.
    """

    job_name: str
    where: str
    from_server: str
    from_queue: str
    to_server: str
    to_queue: str

    @classmethod
    def of(cls, job: Moves, where: str) -> Relocation:
        """Return the relocation of a job from ``where``."""
        here, there = job.here, job.there
        return cls(job.payload["class"], where, here.server, here.queue, there.server, there.queue)


@dataclass
class MigrationReport:
    """Counts of jobs.

    Attributes:
        relocations: moved jobs; in a preview, jobs that would move.
        looked_at: number of judged jobs. A job may be counted twice while workers claim others.
        in_place: jobs already in the queue that the rules choose.
        undeclared: jobs of classes that are not declared here, by stored name. They stay.
        unreadable: malformed jobs, and jobs without a queue. They stay.
        taken: jobs that a worker or another process claimed first.
        refused: jobs that their new server or queue rejected. They are in their old queue.
        finished: jobs that an earlier migration had left in transit, and that were delivered; in a preview, jobs in
            transit.
        on_their_way: jobs in transit to a server that failed. The next run delivers them.
        unknown_queues: selected queues that no server has and no job names.
        failures: servers that failed, by name, with the error.
        complete: False if the limit was reached, `stop` was called, or a server failed.
    """

    relocations: Counter[Relocation] = field(default_factory=Counter[Relocation])
    looked_at: int = 0
    in_place: int = 0
    undeclared: Counter[str] = field(default_factory=Counter[str])
    unreadable: int = 0
    taken: int = 0
    refused: int = 0
    finished: int = 0
    on_their_way: int = 0
    unknown_queues: list[str] = field(default_factory=list[str])
    failures: dict[str, RedisFailure] = field(default_factory=dict[str, RedisFailure])
    complete: bool = True

    @property
    def moved(self) -> int:
        """Number of moved jobs; in a preview, of jobs that would move."""
        return self.relocations.total()

    def count(self, where: str, page: Sequence[Judged], moved: Sequence[MoveResult]) -> None:
        """Count judged jobs, and the outcomes of the moves."""
        self.looked_at += len(page)
        for job, how in zip(page, moved, strict=True):
            if isinstance(job, Stays):
                self.in_place += job.why is Why.IN_PLACE
                self.unreadable += job.why is Why.UNREADABLE
                if job.why is Why.UNDECLARED:
                    self._count_undeclared(job.name)
            elif how is MoveResult.DONE:
                self.relocations[Relocation.of(job, where)] += 1
            else:
                self.taken += how is MoveResult.GONE
                self.refused += how is MoveResult.REFUSED

    def add(self, other: MigrationReport) -> None:
        """Add the jobs of another report that stay where they are."""
        self.looked_at += other.looked_at
        self.in_place += other.in_place
        self.unreadable += other.unreadable
        for name, count in other.undeclared.items():
            self._count_undeclared(name, count)

    def _count_undeclared(self, name: str, count: int = 1) -> None:
        known = name in self.undeclared or len(self.undeclared) < _MOST_NAMES
        self.undeclared[name if known else OTHERS] += count
