"""Count the stored jobs of some names, by place and on every server, and how many of them fail a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from offsider.config.installation import Installation
from offsider.inspector.job_record import JobRecord
from offsider.inspector.job_set import DeadSet, RetrySet, ScheduledSet
from offsider.inspector.quarantine import Quarantine
from offsider.inspector.queue import HeldList, Queue
from offsider.storage import owners, places, queues, working
from offsider.storage.redis import Redis

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
        here: any server of the configuration.
        tests: test by name: whether a job passes; None excludes the job from the count.

    Raises:
        RedisFailure: a server does not respond.
    """
    heaps = {name: _Heap() for name in tests}
    for server in here.config.servers:
        for place, records in _everything(here.for_server(server)):
            named = place if server == here.server else f"{place} of {server}"
            for record in records:
                passed = tests[record.name](record) if record.name in tests else None
                if passed is not None:
                    heap = heaps[record.name]
                    heap.places[named] += 1
                    heap.unfit += not passed and place not in RESTING
    return {name: StoredJobs(dict(heap.places), heap.unfit) for name, heap in heaps.items()}


def _everything(here: Installation) -> Iterator[tuple[str, Iterable[JobRecord]]]:
    """Yield every place of one server, in the order in which jobs move, so that newly claimed jobs are seen last."""
    redis = here.redis
    running = _claimed(redis)
    yield "running", map(JobRecord, running)
    yield from (("schedule", ScheduledSet(here)), ("retry", RetrySet(here)))
    for server in places.transits(redis):
        yield redis.keys.transit(server), map(JobRecord, places.in_transit(redis, server))
    for queue in Queue.all(here):
        yield f"queue:{queue.name}", queue
    for key in queues.extension_lists(redis):
        yield key, HeldList(key, here)
    known = set(running)
    yield "running", (JobRecord(raw) for raw in _claimed(redis) if raw not in known)
    yield "dead", DeadSet(here)
    yield "quarantine", (job.record for job in Quarantine(here))


def _claimed(redis: Redis) -> list[bytes]:
    lists = chain.from_iterable(held.owners() for held in owners.registered(redis))
    return [entry.raw for owner, queues in lists for entry in working.contents(redis, owner, queues)]
