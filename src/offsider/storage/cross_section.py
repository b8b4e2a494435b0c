"""Some of the jobs of every place, from both ends: what a place holds is guessed from them, however much it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

#: Queues beyond so many are not looked into.
MOST_QUEUES = 200
#: About so much is read from each end of a place.
MOST_BYTES = 5_000_000


def cross_section(redis: Redis, queues: Sequence[str], *, each: int) -> dict[str, list[bytes]]:
    """Up to ``each`` jobs from each end of every queue, the schedule and the retry set; fewer where jobs are large.

    Answers them by place: ``queue:<name>``, ``schedule``, ``retry``. A place that is of the wrong type has none.
    """
    keys = redis.keys
    lists = {f"queue:{queue}": keys.queue(queue) for queue in queues[:MOST_QUEUES]}
    sets = {"schedule": keys.schedule, "retry": keys.retry}
    wanted = _affordable(redis, lists, sets, each)
    commands: list[Command] = []
    for verb, places in (("LRANGE", lists), ("ZRANGE", sets)):
        for name, key in places.items():
            commands += [(verb, key, 0, wanted[name] - 1), (verb, key, -wanted[name], -1)]
    replies = redis.pipeline(commands, raise_errors=False)
    return {name: _jobs(replies[2 * index : 2 * index + 2]) for index, name in enumerate([*lists, *sets])}


def _affordable(redis: Redis, lists: Mapping[str, str], sets: Mapping[str, str], each: int) -> dict[str, int]:
    """How many jobs to read from each end of each place, by their average size as the server guesses it."""
    measures: list[Command] = []
    for verb, places in (("LLEN", lists), ("ZCARD", sets)):
        for key in places.values():
            measures += [(verb, key), ("MEMORY", "USAGE", key)]
    replies = redis.pipeline(measures, raise_errors=False)
    wanted: dict[str, int] = {}
    for index, name in enumerate([*lists, *sets]):
        count, used = replies[2 * index], replies[2 * index + 1]
        known = isinstance(count, int) and isinstance(used, int) and used > 0
        wanted[name] = max(1, min(each, MOST_BYTES * count // used)) if known else each
    return wanted


def lengths(redis: Redis, queues: Sequence[str]) -> dict[str, int | None]:
    """How many jobs wait in each queue; None where something else than a queue lies under its key."""
    replies = (
        redis.pipeline([("LLEN", redis.keys.queue(queue)) for queue in queues], raise_errors=False) if queues else []
    )
    return {queue: reply if isinstance(reply, int) else None for queue, reply in zip(queues, replies, strict=True)}


def overdue(redis: Redis, before: float) -> dict[str, int]:
    """How many jobs of the schedule and the retry set were due before a time, epoch seconds, and still lie there."""
    sets = {"schedule": redis.keys.schedule, "retry": redis.keys.retry}
    counts = redis.pipeline([("ZCOUNT", key, "-inf", before) for key in sets.values()])
    return dict(zip(sets, counts, strict=True))


def _jobs(ends: list[object]) -> list[bytes]:
    """Both ends together; a short place is all ends, and its jobs shall not count twice."""
    raws = [raw for end in ends if isinstance(end, list) for raw in cast("list[bytes]", end)]
    return list(dict.fromkeys(raws))
