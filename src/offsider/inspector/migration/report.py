"""What a migration has done, or would do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from offsider.core.errors import RedisFailure

#: So many names of undeclared classes are told apart; jobs of further ones are counted together.
_MOST_NAMES = 1_000
OTHERS = "…"


@dataclass(frozen=True, slots=True)
class Relocation:
    """Jobs of one class that go the same way.

    Attributes:
        job_name: their stored name.
        where: what they wait in: ``"queue"``, ``"schedule"``, ``"retry"``, or ``"parked"`` by an extension, as those
            over the limit of their class. Parked jobs stay parked, unless they go to another server.
        from_server, from_queue: where they are; if not in a queue, the one that they would go to.
        to_server, to_queue: where they go.
    """

    job_name: str
    where: str
    from_server: str
    from_queue: str
    to_server: str
    to_queue: str


@dataclass
class MigrationReport:
    """Counts of jobs.

    Attributes:
        relocations: those that moved; in a preview, those that would.
        looked_at: all that were looked at. A job may be met twice while workers take others.
        in_place: those that are where the rules want them.
        undeclared: those whose class is not declared here, by its stored name. They are left alone.
        unreadable: those that are no jobs, or do not tell their queue. They are left alone.
        taken: those that somebody else took just before they would have moved.
        refused: those that their new place did not take. They are where they were.
        finished: those that an earlier migration had left on their way, and that have now arrived; in a preview,
            those that are on their way.
        on_their_way: those that have left and not arrived, since the other server failed meanwhile: they are safe, and
            the next run brings them on.
        unknown_queues: those of the chosen queues that no server has and no job names.
        failures: servers that did not do what was asked, by name, and why. The others were gone through all the same.
        complete: whether everything was looked at; False when the limit was reached, somebody called `stop`, or a
            server failed.
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
        """How many jobs moved; in a preview, how many would."""
        return self.relocations.total()

    def note_undeclared(self, name: str) -> None:
        known = name in self.undeclared or len(self.undeclared) < _MOST_NAMES
        self.undeclared[name if known else OTHERS] += 1
