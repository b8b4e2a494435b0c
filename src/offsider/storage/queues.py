"""Queues: writing to them, and looking at their size.

A push is a pipeline and not a transaction, as Sidekiq's is. The name goes first, so that a job is never
in a queue that nobody knows; the reply of LPUSH alone tells whether the job is stored (rule 14).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import cast

from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command, Script

CLEAR_QUEUE = Script("clear_queue")
LOCATE = Script("locate")
PAUSE = Script("pause")


def push_commands(keys: Keys, queue: str, raws: Sequence[bytes]) -> list[Command]:
    """The commands that put ``raws`` at the tail of a queue, the first of them to run first.

    The last reply is the result.
    """
    return [("SADD", keys.queues, queue), ("LPUSH", keys.queue(queue), *raws)]


def schedule_commands(keys: Keys, jobs: Iterable[tuple[float, bytes]]) -> list[Command]:
    """The command that stores jobs, each with the epoch seconds at which it is due."""
    command: list[str | bytes | float] = ["ZADD", keys.schedule]
    for at, raw in jobs:
        command += (at, raw)
    return [tuple(command)]


def wait_command(replicas: int, timeout_ms: int) -> Command:
    """Wait until replicas have confirmed the writes of this connection; the reply is how many have."""
    return ("WAIT", replicas, timeout_ms)


def names(redis: Redis) -> list[str]:
    """Every queue that was ever pushed to and not deleted, sorted; a name that is not UTF-8 is left out."""
    return readable(redis.call("SMEMBERS", redis.keys.queues))


def size(redis: Redis, queue: str) -> int:
    return int(redis.call("LLEN", redis.keys.queue(queue)))


def page(redis: Redis, queue: str, start: int, count: int, *, newest_first: bool = False) -> list[bytes]:
    """Payloads from the one that runs next on, or from the one that came last; ``start`` counts from 0."""
    if newest_first:
        newest: list[bytes] = redis.call("LRANGE", redis.keys.queue(queue), start, start + count - 1)
        return newest
    return page_of_list(redis, redis.keys.queue(queue), start, count)


def page_of_list(redis: Redis, key: str, start: int, count: int) -> list[bytes]:
    """The same of any list in the form of a queue."""
    backwards = redis.call("LRANGE", key, -(start + count), -(start + 1))
    return list(reversed(backwards))


def is_known(redis: Redis, queue: str) -> bool:
    """Whether it was ever pushed to and not deleted since."""
    return bool(redis.call("SISMEMBER", redis.keys.queues, queue))


def position(redis: Redis, queue: str, raw: bytes) -> int | None:
    """How many jobs run before this one, found by its exact bytes; None when it is not there."""
    found = redis.run(LOCATE, [redis.keys.queue(queue)], [raw])
    return None if found is None else int(found)


def delete_job(redis: Redis, queue: str, raw: bytes) -> bool:
    """Take one job out by its exact bytes."""
    return bool(redis.call("LREM", redis.keys.queue(queue), 1, raw))


def clear(redis: Redis, queue: str) -> int:
    """Delete a queue with all its jobs, and answer how many there were."""
    return int(redis.run(CLEAR_QUEUE, [redis.keys.queue(queue), redis.keys.queues], [queue]))


def take(redis: Redis, queue: str, count: int) -> list[bytes]:
    """Take the next jobs out of Redis, for good."""
    taken: list[bytes] | None = redis.call("RPOP", redis.keys.queue(queue), count)
    return taken or []


def pause(redis: Redis, *queues: str) -> None:
    """Nobody claims from a paused queue; jobs that run already go on."""
    if queues:
        redis.run(PAUSE, [redis.keys.paused], queues)


def unpause(redis: Redis, *queues: str) -> None:
    if queues:
        redis.call("SREM", redis.keys.paused, *queues)


def paused(redis: Redis) -> set[str]:
    return set(readable(redis.call("SMEMBERS", redis.keys.paused)))


def push_to_head(redis: Redis, queue: str, raw: bytes) -> None:
    """Put a job where it is the next to run."""
    redis.pipeline([("SADD", redis.keys.queues, queue), ("RPUSH", redis.keys.queue(queue), raw)])


def pop_blocking(redis: Redis, served: Sequence[str], block_seconds: float) -> tuple[str, bytes] | None:
    """Take a job out of Redis: from here on it exists in the caller's memory only.

    ``block_seconds`` has to be shorter than the socket timeout.
    """
    reply = redis.call("BRPOP", *(redis.keys.queue(name) for name in served), block_seconds)
    if reply is None:
        return None
    key, raw = reply
    return key.decode().removeprefix(redis.keys.queue("")), raw


def readable(names: object) -> list[str]:
    """The members of a set of names, sorted; one that is not UTF-8 is left out, and so is an error reply."""
    found: list[str] = []
    for name in cast("list[bytes]", names) if isinstance(names, list) else ():
        with suppress(UnicodeDecodeError):
            found.append(name.decode())
    return sorted(found)
