"""Samples of stored jobs, and overdue jobs, for checks that must stay cheap whatever the backlog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

#: Maximum number of queues in a sample.
MAX_QUEUES = 200
#: Approximate bytes read from each end of a queue or set.
MAX_BYTES = 5_000_000


def sample_jobs(redis: Redis, queues: Sequence[str], *, each: int) -> dict[str, list[bytes]]:
    """Up to ``each`` jobs from each end of every queue, the schedule and the retry set; fewer where jobs are large.

    Returns a dict by place: ``queue:<name>``, ``schedule``, ``retry``. A key of the wrong type yields no jobs.
    """
    keys = redis.keys
    lists = {f"queue:{queue}": keys.queue(queue) for queue in queues[:MAX_QUEUES]}
    sets = {"schedule": keys.schedule, "retry": keys.retry}
    wanted = _affordable(redis, lists, sets, each)
    commands: list[Command] = []
    for verb, places in (("LRANGE", lists), ("ZRANGE", sets)):
        for name, key in places.items():
            commands += [(verb, key, 0, wanted[name] - 1), (verb, key, -wanted[name], -1)]
    replies = redis.pipeline(commands, raise_errors=False)
    return {name: _jobs(replies[2 * index : 2 * index + 2]) for index, name in enumerate([*lists, *sets])}


def _affordable(redis: Redis, lists: Mapping[str, str], sets: Mapping[str, str], each: int) -> dict[str, int]:
    """How many jobs to read from each end of each place, from the server's estimate of their average size."""
    measures: list[Command] = []
    for verb, places in (("LLEN", lists), ("ZCARD", sets)):
        for key in places.values():
            measures += [(verb, key), ("MEMORY", "USAGE", key)]
    replies = redis.pipeline(measures, raise_errors=False)
    wanted: dict[str, int] = {}
    for index, name in enumerate([*lists, *sets]):
        count, used = replies[2 * index], replies[2 * index + 1]
        known = isinstance(count, int) and isinstance(used, int) and used > 0
        wanted[name] = max(1, min(each, MAX_BYTES * count // used)) if known else each
    return wanted


def lengths(redis: Redis, queues: Sequence[str]) -> dict[str, int | None]:
    """The length of each queue; None if its key is not a list."""
    replies = (
        redis.pipeline([("LLEN", redis.keys.queue(queue)) for queue in queues], raise_errors=False) if queues else []
    )
    return {queue: reply if isinstance(reply, int) else None for queue, reply in zip(queues, replies, strict=True)}


def overdue(redis: Redis, before: float) -> dict[str, int]:
    """How many jobs of the schedule and the retry set were due before ``before`` (epoch seconds) and have not moved."""
    sets = {"schedule": redis.keys.schedule, "retry": redis.keys.retry}
    counts = redis.pipeline([("ZCOUNT", key, "-inf", before) for key in sets.values()])
    return dict(zip(sets, counts, strict=True))


def scheduler_lag_seconds(redis: Redis) -> dict[str, float]:
    """How long the longest overdue job of ``schedule`` and of ``retry`` has been due; 0 if none is due.

    Raises:
        RedisFailure: the server did not reply.
    """
    keys = redis.keys
    sets = {"schedule": keys.schedule, "retry": keys.retry}
    (seconds, microseconds), *firsts = redis.pipeline(
        [("TIME",), *(("ZRANGE", key, 0, 0, "WITHSCORES") for key in sets.values())]
    )
    now = int(seconds) + int(microseconds) / 1_000_000
    return {name: max(0.0, now - float(first[1])) if first else 0.0 for name, first in zip(sets, firsts, strict=True)}


def _jobs(ends: list[object]) -> list[bytes]:
    """Both ends without duplicates: in a short list they overlap."""
    raws = [raw for end in ends if isinstance(end, list) for raw in cast("list[bytes]", end)]
    return list(dict.fromkeys(raws))
