"""Some of the jobs of every place, from both ends: what a place holds is guessed from them, however much it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

#: Queues beyond so many are not looked into.
MOST_QUEUES = 200


def cross_section(redis: Redis, queues: Sequence[str], *, each: int) -> dict[str, list[bytes]]:
    """Up to ``each`` jobs from each end of every queue, the schedule and the retry set.

    Answers them by place: ``queue:<name>``, ``schedule``, ``retry``. A place that is of the wrong type has none.
    """
    keys = redis.keys
    places = {f"queue:{queue}": keys.queue(queue) for queue in queues[:MOST_QUEUES]}
    sets = {"schedule": keys.schedule, "retry": keys.retry}
    commands: list[Command] = [("LRANGE", key, *ends) for key in places.values() for ends in _ends(each)]
    commands += [("ZRANGE", key, *ends) for key in sets.values() for ends in _ends(each)]
    replies = redis.pipeline(commands, raise_errors=False)
    names = [*places, *sets]
    return {name: _jobs(replies[2 * index : 2 * index + 2]) for index, name in enumerate(names)}


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


def _ends(each: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (0, each - 1), (-each, -1)


def _jobs(ends: list[object]) -> list[bytes]:
    """Both ends together; a short place is all ends, and its jobs shall not count twice."""
    raws = [raw for end in ends if isinstance(end, list) for raw in cast("list[bytes]", end)]
    return list(dict.fromkeys(raws))
