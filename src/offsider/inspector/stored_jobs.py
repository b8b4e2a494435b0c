"""Count the stored jobs of some names, by place and on every server, and how many of them fail a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from offsider.config.installation import Installation
from offsider.inspector.job_record import JobRecord
from offsider.storage import places

#: Places whose jobs run only after an operator's action.
RESTING = frozenset({"dead", "quarantine"})


@dataclass(frozen=True, slots=True)
class StoredJobs:
    """The stored jobs of one name.

    Attributes:
        places: number of jobs by place: ``"queue:low"``, ``"schedule"``, ``"retry"``, ``"running"``, ``"dead"``,
            ``"quarantine"``, or the key of another list: of an extension, or of jobs in transit. Those of another
            server end with ``" of SERVER"``.
        unfit: number of jobs that failed the test, without dead and quarantined jobs.
    """

    places: Mapping[str, int]
    unfit: int


@dataclass(slots=True)
class _Heap:
    places: Counter[str] = field(default_factory=Counter[str])
    unfit: int = 0


def stored_jobs(here: Installation, tests: Mapping[str, Callable[[JobRecord], bool | None]]) -> dict[str, StoredJobs]:
    """Count the stored jobs of some classes, on all servers of the configuration; the jobs are read in pages.

    A job that moves during the count may be counted twice, but is not missed.

    Args:
        server: any server of the configuration.
        tests: test by name: whether a job passes; None excludes the job from the count.

    Raises:
        RedisFailure: a server does not respond.
    """
    heaps = {name: _Heap() for name in tests}
    for server in here.config.servers:
        for place, records in _everything(here.for_server(server)):
            named = place if server == here.name else f"{place} of {server}"
            for record in records:
                passed = tests[record.name](record) if record.name in tests else None
                if passed is not None:
                    heap = heaps[record.name]
                    heap.places[named] += 1
                    heap.unfit += not passed and place not in RESTING
    return {name: StoredJobs(dict(heap.places), heap.unfit) for name, heap in heaps.items()}


def _everything(server: Installation) -> Iterator[tuple[str, Iterable[JobRecord]]]:
    """Yield the jobs of every place of one server; those of private lists once."""
    running: set[bytes] = set()
    for place in places.every(server.redis):
        jobs = (job.raw for job in place.each())
        if place.is_private:
            claimed = [raw for raw in jobs if raw not in running]
            running.update(claimed)
            yield "running", map(JobRecord, claimed)
        else:
            yield place.name, map(JobRecord, jobs)
