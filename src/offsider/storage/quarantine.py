"""Jobs that a bulk purge or a switch has put aside, for some days, with the place where they were.

An id lies in a sorted set, by the second until which it is kept; what it stands for lies in a hash, as a line of
JSON and the job's bytes. Moves in and out are one script each: a job is always in one of the two places.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Script
from offsider.storage.working import Entry, own_keys

QUARANTINE = Script("quarantine")
PLUCK = Script("pluck")
RESTORE = Script("restore")
PUT_ASIDE = Script("put_aside")

#: Jobs that one script moves; each costs a walk through the list when it lies deep in a queue of a million.
BATCH = 50
#: How many jobs workers may take from a queue between a look at a job and its removal.
_TAKEN_MEANWHILE = 1_000
_TRIMMED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Seen:
    """A job of a queue, and how many jobs were to run before it when it was seen."""

    raw: bytes
    position: int


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A job that was put aside.

    Attributes:
        id: of its place here.
        raw: its bytes.
        where: ``retry``, ``schedule``, ``dead`` or ``queue:<name>``.
        score: which it had in the set; 0 in a queue.
        at: epoch seconds at which it was put here.
        until: epoch seconds until which it is kept.
        how: what was done to it, in words of whoever did it.
    """

    id: str
    raw: bytes
    where: str
    score: float
    at: float
    until: float
    how: str


def put_from_set(
    redis: Redis, where: str, members: Sequence[tuple[bytes, float]], *, days: float, at: float, how: str
) -> list[bool]:
    """Put members of a sorted set aside, a hundred at most. False for one that was gone."""
    trim(redis)
    keys = redis.keys
    arguments: list[Argument] = [_seconds(days)]
    for member, score in members:
        arguments += (_new_id(), _head(where, score, at, how), member)
    replies = redis.run(QUARANTINE, [keys.prefix + where, keys.quarantine, keys.quarantined_jobs], arguments)
    return [bool(reply) for reply in replies]


def take_from_queue(
    redis: Redis,
    queue: str,
    jobs: Sequence[Seen],
    *,
    days: float = 0,
    at: float = 0,
    how: str = "",
    out_of: str = "",
) -> list[bool]:
    """Take jobs out of a queue, `BATCH` at most, and put them aside for some days; 0 deletes them for good.

    False for one that was not found near the place where it was seen.

    Args:
        redis: where they are.
        queue: where they go when they are restored.
        jobs: as they were seen.
        days: how long they are kept.
        at: epoch seconds of now.
        how: what is done to them, in words.
        out_of: the key of the list in which they lie, when it is not that of the queue.
    """
    keys = redis.keys
    if days:
        trim(redis)
    mark = f"offsider:plucked:{secrets.token_hex(16)}"
    head = _head(f"queue:{queue}", 0, at, how)
    arguments: list[Argument] = [mark, _seconds(days), _TAKEN_MEANWHILE]
    for job in jobs:
        arguments += (-1 - job.position, _new_id(), head, job.raw)
    replies = redis.run(PLUCK, [out_of or keys.queue(queue), keys.quarantine, keys.quarantined_jobs], arguments)
    return [bool(reply) for reply in replies]


def put_from_run(redis: Redis, entry: Entry, *, days: float, most: int, at: float, how: str) -> bool:
    """Put a job aside that was claimed, out of its private list. False when it was gone: somebody else owns it.

    Whoever does so often calls `trim` now and then.

    Args:
        redis: where it is.
        entry: the job.
        days: how long it is kept.
        most: once so many lie here it is deleted instead.
        at: epoch seconds of now.
        how: what is done to it, in words.

    Raises:
        Fenced: its owner was declared dead.
    """
    keys = redis.keys
    head = _head(f"queue:{entry.queue}", 0, at, how)
    places = [*own_keys(redis, entry), keys.quarantine, keys.quarantined_jobs]
    return bool(redis.run(PUT_ASIDE, places, [entry.raw, _new_id(), head, _seconds(days), most]))


def add(redis: Redis, raw: bytes, queue: str, *, days: float, most: int, at: float, how: str) -> None:
    """Put a job aside that lies nowhere else, as `put_from_run`."""
    if size(redis) >= most:
        return
    keys = redis.keys
    identifier = _new_id()
    stored = _head(f"queue:{queue}", 0, at, how).encode() + b"\n" + raw
    until = int(redis.call("TIME")[0]) + _seconds(days)
    redis.pipeline([("HSET", keys.quarantined_jobs, identifier, stored), ("ZADD", keys.quarantine, until, identifier)])


def restore(redis: Redis, job: Quarantined) -> bool:
    """Move a job back: to the tail of its queue, or into its set with the score it had. False when it was gone."""
    keys = redis.keys
    queue = job.where.removeprefix("queue:") if job.where.startswith("queue:") else ""
    target = [keys.quarantine, keys.quarantined_jobs, keys.prefix + job.where, keys.queues]
    return bool(redis.run(RESTORE, target, [job.id, queue, repr(job.score)]))


def delete(redis: Redis, identifier: str) -> bool:
    """Delete a job for good. False when it was gone."""
    keys = redis.keys
    # Who removes the job has won. An id without a job is passed over, and goes with the time.
    commands = [("HDEL", keys.quarantined_jobs, identifier), ("ZREM", keys.quarantine, identifier)]
    return bool(redis.pipeline(commands)[0])


def size(redis: Redis) -> int:
    return int(redis.call("ZCARD", redis.keys.quarantine))


def page(redis: Redis, start: int, count: int, *, newest_first: bool = True) -> list[Quarantined]:
    """Some jobs by the second until which they are kept."""
    order = ("REV",) if newest_first else ()
    reply = redis.call("ZRANGE", redis.keys.quarantine, start, start + count - 1, *order, "WITHSCORES")
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return _with_jobs(redis, [(identifier, float(until)) for identifier, until in pairs])


def find(redis: Redis, identifier: str) -> Quarantined | None:
    """The job of this id; None when there is none."""
    until = redis.call("ZSCORE", redis.keys.quarantine, identifier)
    found = [] if until is None else _with_jobs(redis, [(identifier.encode(), float(until))])
    return found[0] if found else None


def trim(redis: Redis) -> None:
    """Delete what is overdue, some at a time."""
    keys = redis.keys
    now = int(redis.call("TIME")[0])
    overdue = redis.call("ZRANGE", keys.quarantine, "-inf", f"({now}", "BYSCORE", "LIMIT", 0, _TRIMMED_AT_ONCE)
    if overdue:
        redis.pipeline([("HDEL", keys.quarantined_jobs, *overdue), ("ZREM", keys.quarantine, *overdue)])


def _with_jobs(redis: Redis, listed: Sequence[tuple[bytes, float]]) -> list[Quarantined]:
    if not listed:
        return []
    stored = redis.call("HMGET", redis.keys.quarantined_jobs, *(identifier for identifier, _ in listed))
    pairs = zip(listed, stored, strict=True)
    return [_parse(identifier, until, kept) for (identifier, until), kept in pairs if kept is not None]


def _parse(identifier: bytes, until: float, stored: bytes) -> Quarantined:
    head, _, raw = stored.partition(b"\n")
    told = _told(head)
    return Quarantined(
        id=identifier.decode("utf-8", "replace"),
        raw=raw,
        where=_text(told.get("where")),
        score=_number(told.get("score")),
        at=_number(told.get("at")),
        until=until,
        how=_text(told.get("how")),
    )


def _told(head: bytes) -> dict[str, object]:
    try:
        told: object = json.loads(head)
    except ValueError:
        return {}
    return cast("dict[str, object]", told) if isinstance(told, dict) else {}


def _text(told: object) -> str:
    return told if isinstance(told, str) else ""


def _number(told: object) -> float:
    return told if isinstance(told, float) else 0.0


def _head(where: str, score: float, at: float, how: str) -> str:
    return json.dumps({"where": where, "score": float(score), "at": float(at), "how": how}, separators=(",", ":"))


def _new_id() -> str:
    return secrets.token_hex(8)


def _seconds(days: float) -> int:
    return int(days * 86_400)
