"""How many jobs are stored under some names, place by place and on every server, and how many of them fail a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from offsider.inspector.job_record import JobRecord
from offsider.inspector.job_set import DeadSet, RetrySet, ScheduledSet
from offsider.inspector.quarantine import Quarantine
from offsider.inspector.queue import Queue
from offsider.storage import migration, owners, places, queue_walk, working
from offsider.storage.queue_walk import Place
from offsider.storage.redis import Redis
from offsider.wiring.config import Config

#: Where jobs wait for somebody to send them back.
RESTING = frozenset({"dead", "quarantine"})
_PAGE = 500


@dataclass(frozen=True, slots=True)
class StoredJobs:
    """The jobs under one name.

    Attributes:
        places: ``"queue:low"``, ``"schedule"``, ``"retry"``, ``"running"``, ``"dead"``, ``"quarantine"`` or the key of
            a list of an extension or a migration -> how many; of further servers with their name behind it.
        to_run: how many will run by themselves: all but the dead and those in quarantine.
        unfit: how many of these have failed the test.
    """

    places: Mapping[str, int]
    to_run: int
    unfit: int


@dataclass(slots=True)
class _Heap:
    places: Counter[str] = field(default_factory=Counter[str])
    to_run: int = 0
    unfit: int = 0


def stored_jobs(config: Config, tests: Mapping[str, Callable[[JobRecord], bool | None]]) -> dict[str, StoredJobs]:
    """Count the stored jobs of some classes, on all servers of the configuration; each job is read in pages.

    One that moves on meanwhile may be counted twice, and is not missed.

    Args:
        config: the servers.
        tests: name -> whether a job passes; None leaves it out of the count.

    Raises:
        RedisFailure: a server does not answer.
    """
    heaps = {name: _Heap() for name in tests}
    for server in config.servers:
        for place, records in _everything(config.for_server(server)):
            named = place if server == config.server else f"{place} of {server}"
            for record in records:
                passed = tests[record.name](record) if record.name in tests else None
                if passed is not None:
                    heap = heaps[record.name]
                    heap.places[named] += 1
                    heap.to_run += place not in RESTING
                    heap.unfit += not passed and place not in RESTING
    return {name: StoredJobs(dict(heap.places), heap.to_run, heap.unfit) for name, heap in heaps.items()}


def _everything(config: Config) -> Iterator[tuple[str, Iterable[JobRecord]]]:
    """Every place of one server, in the direction in which jobs go: who is claimed meanwhile is met at the end."""
    redis = config.shared_redis()
    running = _claimed(redis)
    yield "running", map(JobRecord, running)
    yield from (("schedule", ScheduledSet(config)), ("retry", RetrySet(config)))
    for journal in migration.journals(redis):
        waiting = migration.oldest(redis, journal, migration.waiting(redis, journal))
        yield redis.keys.migrating(journal.id), (JobRecord(entry.payload) for entry in waiting)
    for queue in Queue.all(config):
        yield f"queue:{queue.name}", queue
    for key in places.keys_of(redis):
        yield key, _in_list(redis, key)
    known = set(running)
    yield "running", (JobRecord(raw) for raw in _claimed(redis) if raw not in known)
    yield "dead", DeadSet(config)
    yield "quarantine", (job.record for job in Quarantine(config))


def _claimed(redis: Redis) -> list[bytes]:
    lists = chain.from_iterable(held.owners() for held in owners.registered(redis))
    return [entry.raw for owner, queues in lists for entry in working.contents(redis, owner, queues)]


def _in_list(redis: Redis, key: str) -> Iterator[JobRecord]:
    place = Place()
    while True:
        start, raws = queue_walk.read_on_list(redis, key, place, _PAGE)
        if not raws:
            return
        yield from map(JobRecord, raws)
        place = place.after(start + len(raws), raws)
