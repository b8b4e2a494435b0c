"""Quarantine: jobs removed by a bulk purge or a control, kept for some days with their origin.

A sorted set contains ids, scored by expiry in epoch seconds. A hash maps each id to a line of JSON and the payload.
Each move in or out is one script, so a job is always in exactly one place.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from offsider.core.errors import RedisRefused
from offsider.storage.hashes import json_object
from offsider.storage.places import QUEUES, Destination, Move, MoveResult, move
from offsider.storage.redis import Redis
from offsider.storage.scripts import RunsScripts, Script
from offsider.storage.store_once import QUEUE
from offsider.storage.working import PrivateListEntry, own_keys

PUT_ASIDE = Script("put_aside")

#: Jobs that one script moves. Each costs a walk through the list if it is deep in a queue of a million jobs.
BATCH = 50
#: Size from which controls delete the jobs that they drop; jobs that an operator quarantines are always kept.
MAX_JOBS = 100_000
_TRIMMED_AT_ONCE = 1_000


class Seen(NamedTuple):
    """A job, and where it was when it was read.

    Attributes:
        raw: the payload.
        position: number of jobs before it in a list.
        score: its score in a set.
    """

    raw: bytes
    position: int = 0
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class QuarantineEntry:
    """A job in quarantine.

    Attributes:
        id: id in the quarantine.
        raw: the payload.
        where: origin: ``retry``, ``schedule``, ``dead`` or ``queue:<name>``.
        score: score in the set; 0 for a queue.
        at: when it was moved here, in epoch seconds.
        until: when it expires, in epoch seconds.
        how: description of the action, as text.
    """

    id: str
    raw: bytes
    where: str
    score: float
    at: float
    until: float
    how: str


def move_of(job: Seen, where: str, *, at: float, how: str) -> Move:
    """Return the move of a job into quarantine.

    Args:
        job: the job.
        where: the place to which it is restored.
        at: current time in epoch seconds.
        how: description of the action.
    """
    return Move(job.raw, _head(where, job.score, at, how).encode(), _new_id(), job.position)


def for_days(days: float) -> Destination:
    """Return the quarantine as a destination."""
    return Destination("quarantine", seconds=_seconds(days))


def put_from_run(redis: RunsScripts, entry: PrivateListEntry, *, days: float, most: int, at: float, how: str) -> bool:
    """Move a claimed job from its private list into quarantine. False if it is gone: another process owns it.

    Frequent callers should call `trim` regularly.

    Args:
        redis: its server.
        entry: the job.
        days: retention in days.
        most: maximum number of jobs in quarantine; above it, the job is deleted.
        at: current time in epoch seconds.
        how: description of the action.

    Raises:
        Fenced: its owner was declared dead.
    """
    keys = redis.keys
    head = _head(f"queue:{entry.queue}", 0, at, how)
    places = [*own_keys(redis, entry), keys.quarantine, keys.quarantined_jobs]
    return bool(redis.run(PUT_ASIDE, places, [entry.raw, _new_id(), head, _seconds(days), most]))


def add(redis: Redis, raw: bytes, queue: str, *, days: float, most: int, at: float, how: str) -> None:
    """Add a job that is stored nowhere else, with the limits of `put_from_run`."""
    if size(redis) >= most:
        return
    keys = redis.keys
    identifier = _new_id()
    stored = _head(f"queue:{queue}", 0, at, how).encode() + b"\n" + raw
    until = int(redis.call("TIME")[0]) + _seconds(days)
    redis.pipeline([("HSET", keys.quarantined_jobs, identifier, stored), ("ZADD", keys.quarantine, until, identifier)])


def restore(redis: RunsScripts, identifier: str, where: str, score: float) -> bool:
    """Move a job back to the tail of its queue, or into its set with its old score. False if it is missing.

    Raises:
        RedisRefused: its former place is a key of another type.
    """
    is_set = not where.startswith(QUEUE)
    to, detail = (Destination("set", where), repr(score)) if is_set else (QUEUES, where.removeprefix(QUEUE))
    (moved,) = move(redis, "quarantine", [Move(identifier.encode(), detail=detail)], to)
    if moved is MoveResult.REFUSED:
        raise RedisRefused(f"{where} has another type, so the job stays in quarantine", code="WRONGTYPE")
    return moved is MoveResult.DONE


def size(redis: Redis) -> int:
    return int(redis.call("ZCARD", redis.keys.quarantine))


def page(redis: Redis, start: int, count: int, *, newest_first: bool = True) -> list[QuarantineEntry]:
    """Return a page of jobs, in the order of their expiry."""
    order = ("REV",) if newest_first else ()
    reply = redis.call("ZRANGE", redis.keys.quarantine, start, start + count - 1, *order, "WITHSCORES")
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return _with_jobs(redis, [(identifier, float(until)) for identifier, until in pairs])


def find(redis: Redis, identifier: str) -> QuarantineEntry | None:
    """Return the job with this id, or None."""
    until = redis.call("ZSCORE", redis.keys.quarantine, identifier)
    found = [] if until is None else _with_jobs(redis, [(identifier.encode(), float(until))])
    return found[0] if found else None


def trim(redis: Redis) -> None:
    """Delete a batch of expired jobs."""
    keys = redis.keys
    now = int(redis.call("TIME")[0])
    overdue = redis.call("ZRANGE", keys.quarantine, "-inf", f"({now}", "BYSCORE", "LIMIT", 0, _TRIMMED_AT_ONCE)
    if overdue:
        redis.pipeline([("HDEL", keys.quarantined_jobs, *overdue), ("ZREM", keys.quarantine, *overdue)])


def _with_jobs(redis: Redis, listed: Sequence[tuple[bytes, float]]) -> list[QuarantineEntry]:
    if not listed:
        return []
    stored = redis.call("HMGET", redis.keys.quarantined_jobs, *(identifier for identifier, _ in listed))
    pairs = [(*each, *kept.partition(b"\n")) for each, kept in zip(listed, stored, strict=True) if kept is not None]
    return [parse(identifier.decode("utf-8", "replace"), until, head, raw) for identifier, until, head, _, raw in pairs]


def parse(identifier: str, until: float, head: bytes, raw: bytes) -> QuarantineEntry:
    """Return a job from its entry: the expiry, a line of JSON and the payload."""
    fields = json_object(head)
    return QuarantineEntry(
        id=identifier,
        raw=raw,
        where=_text(fields.get("where")),
        score=_number(fields.get("score")),
        at=_number(fields.get("at")),
        until=until,
        how=_text(fields.get("how")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float:
    return value if isinstance(value, float) else 0.0


def _head(where: str, score: float, at: float, how: str) -> str:
    return json.dumps({"where": where, "score": float(score), "at": float(at), "how": how}, separators=(",", ":"))


def _new_id() -> str:
    return secrets.token_hex(8)


def _seconds(days: float) -> int:
    return int(days * 86_400)
