"""How many jobs are stored under some names, place by place, and how many of them fail a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from offsider.inspector.job_record import JobRecord
from offsider.inspector.job_set import DeadSet, RetrySet, ScheduledSet
from offsider.inspector.queue import Queue
from offsider.wiring.config import Config

DEAD = "dead"


@dataclass(frozen=True, slots=True)
class StoredJobs:
    """The jobs under one name.

    Attributes:
        places: ``"queue:low"``, ``"schedule"``, ``"retry"`` or ``"dead"`` -> how many.
        unfit: how many of those that will run by themselves have failed the test.
    """

    places: Mapping[str, int]
    unfit: int

    @property
    def to_run(self) -> int:
        """Those that will run by themselves: all but the dead."""
        return sum(count for place, count in self.places.items() if place != DEAD)


def stored_jobs(config: Config, tests: Mapping[str, Callable[[JobRecord], bool | None]]) -> dict[str, StoredJobs]:
    """Count the stored jobs of some classes; every stored job is read once, in pages.

    Args:
        config: which server.
        tests: name -> whether a job passes; None leaves it out of the count.

    Raises:
        RedisFailure: the server does not answer.
    """
    places = {name: Counter[str]() for name in tests}
    unfit = Counter[str]()
    for place, records in _everything(config):
        for record in records:
            passed = tests[record.name](record) if record.name in tests else None
            if passed is not None:
                places[record.name][place] += 1
                unfit[record.name] += not passed and place != DEAD
    return {name: StoredJobs(dict(counts), unfit[name]) for name, counts in places.items()}


def _everything(config: Config) -> Iterator[tuple[str, Iterable[JobRecord]]]:
    for queue in Queue.all(config):
        yield f"queue:{queue.name}", queue
    yield "schedule", ScheduledSet(config)
    yield "retry", RetrySet(config)
    yield DEAD, DeadSet(config)
