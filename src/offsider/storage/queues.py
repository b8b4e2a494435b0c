"""Operations on queues.

A push is a pipeline, not a transaction, as in Sidekiq. It first adds the queue to the set of queues, so that no queue
with jobs is unknown. Only the reply to LPUSH decides whether the job is stored (decisions.md, rule 14).

Extensions have lists with jobs, too, in the format of a queue: new jobs are pushed on the left, the next job is on the
right. Each element is the payload of a queue, and its field ``queue`` names that queue. A script of an extension that
stores a job in its own list first adds the list's key to a set. Code that searches for jobs reads these lists as well:
their jobs are not lost, and their locks must stay. It need not know the extension.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import cast

from offsider.core.errors import MalformedPayload, OffsiderError, RedisRefused
from offsider.core.payload import decode, read_stamp
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis, packed_command
from offsider.storage.scripts import Argument, Call, Command, Script, run_together

FORGET_QUEUE = Script("forget_queue")
STORE = Script("store")
OLDEST = Script("oldest")

#: Payloads can have many megabytes: the maximum bytes of one that is read whole, and the bytes of each end of others.
_ARGUMENTS: tuple[Argument, ...] = (16_384, 4_096)
#: Private lists of Sidekiq Pro begin like queues.
FOREIGN = (b"sq|", b"sq_")
#: Keys that a step of `find_unregistered` examines.
SCANNED = 1_000
#: Quotes inside of a string are escaped, so this is a key.
_STAMP = re.compile(rb'"enqueued_at": ?([0-9]{1,18}(?:\.[0-9]{1,18})?)')


def push_commands(keys: Keys, queue: str, raws: Sequence[bytes]) -> list[Command]:
    """Return the commands that push ``raws`` to the tail of a queue, in the order in which they run.

    The last reply is the result.
    """
    return [("SADD", keys.queues, queue), ("LPUSH", keys.queue(queue), *raws)]


def packed_push(keys: Keys, queue: str, raw: bytes) -> bytes:
    """Return the packed `push_commands` of one job."""
    return b"".join((_start_of_push(keys.prefix, queue), b"%d\r\n" % len(raw), raw, b"\r\n"))


@lru_cache(maxsize=1_000)
def _start_of_push(prefix: str, queue: str) -> bytes:
    """Return the bytes before the length of the payload, which are the same for all jobs of a queue."""
    whole = b"".join(map(packed_command, push_commands(Keys(prefix), queue, [b""])))
    return whole.removesuffix(b"0\r\n\r\n")


def schedule_commands(keys: Keys, jobs: Iterable[tuple[float, bytes]]) -> list[Command]:
    """Return the command that schedules jobs, each given with its due time in epoch seconds."""
    command: list[str | bytes | float] = ["ZADD", keys.schedule]
    for at, raw in jobs:
        command += (at, raw)
    return [tuple(command)]


def store_call(keys: Keys, jobs: Sequence[tuple[bytes, float | None]], queue: str) -> Call:
    """Return the script call that stores jobs, given with their due times: all in the queue, or all in the schedule."""
    if jobs[0][1] is None:
        return STORE, [keys.queues, keys.queue(queue)], [queue, *[raw for raw, _ in jobs]]
    times_and_raws: list[Argument] = [part for raw, at in jobs for part in (at or 0.0, raw)]
    return STORE, [keys.queues, keys.schedule], ["", *times_and_raws]


def wait_command(replicas: int, timeout_ms: int) -> Command:
    """Return the command that waits for replicas to confirm the writes of this connection. It returns their number."""
    return ("WAIT", replicas, timeout_ms)


def names(redis: Redis) -> list[str]:
    """Return the names in the set of queues, sorted. Names that are not UTF-8 are omitted."""
    return readable(redis.call("SMEMBERS", redis.keys.queues))


def register(redis: Redis, names: Sequence[str]) -> None:
    """Add queues to the set of queues, so that all commands and pages see them."""
    if names:
        redis.call("SADD", redis.keys.queues, *names)


def find_unregistered(redis: Redis, cursor: bytes) -> tuple[bytes, list[str]]:
    """Examine a part of the keys for queues that are not in the set of queues. Returns the next cursor and the names.

    A client of another language may push without registering the queue.
    """
    cursor, keys = redis.call("SCAN", cursor, "MATCH", redis.keys.every_queue, "COUNT", SCANNED, "TYPE", "list")
    return cursor, readable(unregistered(redis, keys)) if keys else []


def unregistered(redis: Redis, keys: Iterable[bytes]) -> list[bytes]:
    """Return the names of those queues that are not in the set of queues, and whose first or last element is a job."""
    start = redis.keys.queue("").encode()
    known = {name.encode() for name in names(redis)}
    found = {key.removeprefix(start) for key in keys if key.startswith(start)}
    names_ = sorted(name for name in found - known if not name.startswith(FOREIGN))
    replies = redis.pipeline([("LINDEX", start + name, end) for name in names_ for end in (0, -1)], raise_errors=False)
    ends = zip(names_, replies[::2], replies[1::2], strict=True)
    return [name for name, first, last in ends if _is_job(first) or _is_job(last)]


def _is_job(raw: object) -> bool:
    with suppress(MalformedPayload):
        return isinstance(raw, bytes) and bool(decode(raw))
    return False


def lengths(redis: Redis, queues: Sequence[str]) -> dict[str, int | None]:
    """Return the length of each queue; None if its key is not a list."""
    commands = [("LLEN", redis.keys.queue(queue)) for queue in queues]
    replies = redis.pipeline(commands, raise_errors=False) if commands else []
    return {queue: reply if isinstance(reply, int) else None for queue, reply in zip(queues, replies, strict=True)}


def page(redis: Redis, key: str, start: int, count: int, *, newest_first: bool = False) -> list[bytes]:
    """Return payloads in the order in which they run, or newest first; ``start`` counts from 0.

    Args:
        key: key of a queue, or of any list in its format.
    """
    if newest_first:
        newest: list[bytes] = redis.call("LRANGE", key, start, start + count - 1)
        return newest
    backwards = redis.call("LRANGE", key, -(start + count), -(start + 1))
    return list(reversed(backwards))


def is_known(redis: Redis, queue: str) -> bool:
    """Whether the queue is in the set of queues."""
    return bool(redis.call("SISMEMBER", redis.keys.queues, queue))


def position(redis: Redis, queue: str, raw: bytes) -> int | None:
    """Return the number of jobs before this one, found by its exact bytes; None if it is missing."""
    key = redis.keys.queue(queue)
    from_head, size = run_together(redis, ("LPOS", key, raw, "RANK", -1), ("LLEN", key))
    return None if from_head is None else int(size) - 1 - int(from_head)


def clear(redis: Redis, queue: str) -> int:
    """Delete a queue with all its jobs; returns the number of jobs."""
    key = redis.keys.queue(queue)
    jobs, *_ = run_together(redis, ("LLEN", key), ("UNLINK", key), ("SREM", redis.keys.queues, queue))
    return int(jobs)


def forget(redis: Redis, queue: str) -> bool:
    """Remove an empty queue from the set of queues; False if it contains jobs or is not in the set."""
    return bool(redis.run(FORGET_QUEUE, [redis.keys.queue(queue), redis.keys.queues], [queue]))


def paused(redis: Redis) -> set[str]:
    return set(readable(redis.call("SMEMBERS", redis.keys.paused)))


def push_to_head(redis: Redis, queue: str, raw: bytes) -> None:
    """Push a job to the head of its queue, where it runs next."""
    redis.pipeline([("SADD", redis.keys.queues, queue), ("RPUSH", redis.keys.queue(queue), raw)])


def push_last(redis: Redis, queue: str, raw: bytes) -> None:
    """Push a job to the tail of its queue."""
    redis.pipeline(push_commands(redis.keys, queue, [raw]))


def pop_blocking(redis: Redis, served: Sequence[str], block_seconds: float) -> tuple[str, bytes] | None:
    """Remove and return the next job: afterwards only the caller's memory contains it.

    ``block_seconds`` must be shorter than the socket timeout.
    """
    reply = redis.call("BRPOP", *(redis.keys.queue(name) for name in served), block_seconds)
    if reply is None:
        return None
    key, raw = reply
    return key.decode().removeprefix(redis.keys.queue("")), raw


def readable(names: object) -> list[str]:
    """Return a set of names, sorted. Names that are not UTF-8 are omitted; an error reply counts as empty."""
    found: list[str] = []
    for name in cast("list[bytes]", names) if isinstance(names, list) else ():
        with suppress(UnicodeDecodeError):
            found.append(name.decode())
    return sorted(found)


def extension_lists(redis: Redis) -> list[str]:
    """Return the keys of all lists of extensions, sorted; lists can be empty."""
    return sorted(key.decode() for key in redis.call("SMEMBERS", redis.keys.places))


def extension_list_lengths(redis: Redis) -> dict[str, int]:
    """Return the length of each list of an extension that is not empty."""
    keys = extension_lists(redis)
    replies = redis.pipeline([("LLEN", key) for key in keys]) if keys else []
    return {key: int(length) for key, length in zip(keys, replies, strict=True) if length}


def oldest_command(redis: Redis, names: Sequence[str]) -> Command:
    """Return the command of `enqueued_at`, for use in a pipeline."""
    return OLDEST.by_hash([redis.keys.queue(name) for name in names], _ARGUMENTS)


def enqueued_at(redis: Redis, names: Sequence[str], reply: object = None) -> list[float | None]:
    """When the next job of each queue was enqueued, in epoch seconds; None if the queue is empty or it is unknown.

    Args:
        reply: the reply to `oldest_command`. Without one, or if the server did not know the script, a request is sent.
    """
    if reply is None or (isinstance(reply, RedisRefused) and reply.code == "NOSCRIPT"):
        reply = redis.run(OLDEST, [redis.keys.queue(name) for name in names], _ARGUMENTS)
    if isinstance(reply, OffsiderError):
        raise reply
    return [_read(raw) for raw in cast("list[object]", reply)]


def _read(raw: object) -> float | None:
    if isinstance(raw, bytes):
        try:
            return read_stamp(decode(raw).get("enqueued_at"))
        except MalformedPayload:
            return None
    # Sidekiq and offsider write it after the arguments; other clients may write it before them.
    ends = cast("list[bytes]", raw) if isinstance(raw, list) else []
    stamps = [stamp for end in ends for stamp in _STAMP.findall(end)]
    return read_stamp(json.loads(stamps[-1])) if stamps else None
