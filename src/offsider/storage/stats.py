"""Counters: processed, failed and expired jobs; and the sizes of queues and sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from offsider.storage import activity, hashes, owners, queues
from offsider.storage.activity import Activity
from offsider.storage.effects import Effect
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command, Script

DAY_EXPIRY_SECONDS = 157_680_000  # five years, as Sidekiq keeps them
COUNT_EXPIRED = Script("count_expired")


def commands_of(keys: Keys, processed: int, failed: int, day: str) -> list[Command]:
    """Return the commands that add to the counters; ``day`` is the UTC date ``YYYY-MM-DD``. Zeros are not written."""
    commands: list[Command] = []
    for name, count in (("processed", processed), ("failed", failed)):
        if count:
            daily = keys.stat_day(name, day)
            commands += [
                ("INCRBY", keys.stat(name), count),
                ("INCRBY", daily, count),
                ("EXPIRE", daily, DAY_EXPIRY_SECONDS),
            ]
    return commands


def read(redis: Redis) -> tuple[int, int]:
    """Return the totals of processed and failed jobs."""
    processed, failed = redis.pipeline([("GET", redis.keys.stat("processed")), ("GET", redis.keys.stat("failed"))])
    return _count(processed), _count(failed)


def reset(redis: Redis, names: Sequence[str]) -> None:
    """Reset the totals to 0; the counters of the days stay."""
    redis.pipeline([("SET", redis.keys.stat(name), 0) for name in names])


def days(redis: Redis, name: str, dates: Sequence[str]) -> list[int]:
    """Return the counter of each day, given as ``YYYY-MM-DD``."""
    if not dates:
        return []
    return [_count(value) for value in redis.call("MGET", *(redis.keys.stat_day(name, day) for day in dates))]


@dataclass(frozen=True, slots=True)
class QueueOverview:
    """A queue: its size, the enqueue time of its next job (None if unknown), and whether it is paused."""

    name: str
    size: int
    enqueued_at: float | None
    paused: bool


@dataclass(frozen=True, slots=True)
class ProcessOverview:
    """The number of running jobs of a process, and its last report (None for Ruby processes)."""

    busy: int
    activity: Activity | None


@dataclass(frozen=True, slots=True)
class Overview:
    """The numbers of a server.

    Attributes:
        processes: the live processes.
        held_back: number of jobs in lists of extensions.
        now: epoch seconds, by the server's clock.
    """

    processed: int
    failed: int
    scheduled: int
    retries: int
    dead: int
    processes: Mapping[str, ProcessOverview]
    queues: tuple[QueueOverview, ...]
    held_back: int = 0
    now: float = 0.0


def overview(redis: Redis) -> Overview:
    """Read all numbers in two round trips. Queues are sorted by name.

    A key of the wrong type counts as empty.
    """
    keys = redis.keys
    first: list[Command] = [
        ("GET", keys.stat("processed")),
        ("GET", keys.stat("failed")),
        ("ZCARD", keys.schedule),
        ("ZCARD", keys.retry),
        ("ZCARD", keys.dead),
        ("SMEMBERS", keys.queues),
        ("SMEMBERS", keys.paused),
        ("SMEMBERS", keys.processes),
        ("SMEMBERS", keys.places),
        ("TIME",),
    ]
    processed, failed, scheduled, retries, dead, *sets, time = redis.pipeline(first, raise_errors=False)
    known, paused, listed, places = sets
    names, stopped, identities = queues.readable(known), set(queues.readable(paused)), queues.readable(listed)
    second: list[Command] = [("LLEN", keys.queue(name)) for name in names]
    lists: list[Command] = [("LLEN", place) for place in queues.readable(places)]
    second += lists
    second += [("HMGET", keys.process(identity), "info", "busy", activity.FIELD) for identity in identities]
    if names:
        second.append(queues.oldest_command(redis, names))
    replies = redis.pipeline(second, raise_errors=False) if second else []
    since = queues.enqueued_at(redis, names, replies.pop()) if names else []
    sizes, replies = replies[: len(names)], replies[len(names) :]
    held, of_processes = replies[: len(lists)], replies[len(lists) :]
    return Overview(
        processed=_count(processed),
        failed=_count(failed),
        scheduled=_count(scheduled),
        retries=_count(retries),
        dead=_count(dead),
        processes={
            identity: ProcessOverview(_count(reply[1]), activity.parse(cast("bytes | None", reply[2])))
            for identity, reply in zip(identities, of_processes, strict=True)
            if isinstance(reply, list) and reply[0] is not None
        },
        queues=tuple(
            QueueOverview(name, _count(size), enqueued_at, name in stopped)
            for name, size, enqueued_at in zip(names, sizes, since, strict=True)
        ),
        held_back=sum(map(_count, held)),
        now=int(time[0]) + int(time[1]) / 1_000_000,
    )


def _count(reply: Any) -> int:
    """Parse a count that other clients may have written; an error reply is 0."""
    return hashes.whole(reply) or 0


def counting_expired(keys: Keys, name: str) -> Effect:
    """Return the effect that counts an expired job. ``name``: its registered class; empty for other classes."""
    return Effect(COUNT_EXPIRED, [keys.expired], [name])


def expired_counts(redis: Redis) -> dict[str, int]:
    """Return the number of expired jobs by class; classes that no worker knew are counted under an empty name."""
    return hashes.wholes(redis.call("HGETALL", redis.keys.expired))


def count_by_queue(redis: Redis) -> dict[str, int]:
    """Return the number of jobs of each non-empty queue.

    Jobs in private lists count as ``"(running)"``, jobs in lists of extensions as ``"(held)"``. A running job can push
    another one and end between two reads, and both reads would miss a job. So one transaction reads all counts.
    """
    while True:
        names = queues.names(redis)
        working = [key for lists in owners.registered(redis) for key in lists.keys(redis)]
        further = queues.extension_lists(redis)
        listed = [*map(redis.keys.queue, names), *further, *working]
        sizes = [("SCARD", redis.keys.queues), ("SCARD", redis.keys.places)]
        commands = [("MULTI",), *sizes, *(("LLEN", key) for key in listed), ("EXEC",)]
        known_queues, known_places, *lengths = redis.pipeline(commands)[-1]
        if (known_queues, known_places) == (len(names), len(further)):  # otherwise a list was added: read again
            waiting = dict(zip(names, lengths, strict=False))
            held, running = lengths[len(names) :][: len(further)], lengths[len(names) + len(further) :]
            counts = {**waiting, "(held)": sum(held), "(running)": sum(running)}
            return {name: number for name, number in counts.items() if number}
