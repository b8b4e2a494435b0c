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

from offsider.storage.hashes import json_object
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, RunsScripts, Script
from offsider.storage.working import PrivateListEntry, own_keys

QUARANTINE = Script("quarantine")
PLUCK = Script("pluck")
RESTORE = Script("restore")
PUT_ASIDE = Script("put_aside")

#: Jobs that one script moves. Each costs a walk through the list if it is deep in a queue of a million jobs.
BATCH = 50
#: Size from which controls delete the jobs that they drop; jobs that an operator quarantines are always kept.
MAX_JOBS = 100_000
#: Number of jobs that workers may take from a queue between reading a job and removing it.
_TAKEN_MEANWHILE = 1_000
_TRIMMED_AT_ONCE = 1_000


class Seen(NamedTuple):
    """A job of a queue, and the number of jobs before it when it was read."""

    raw: bytes
    position: int


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


def put_from_set(
    redis: RunsScripts, where: str, members: Sequence[tuple[bytes, float]], *, days: float, at: float, how: str
) -> list[bool]:
    """Move up to 100 members of a sorted set into quarantine. False for a missing member."""
    keys = redis.keys
    arguments: list[Argument] = [_seconds(days)]
    for member, score in members:
        arguments += (_new_id(), _head(where, score, at, how), member)
    replies = redis.run(QUARANTINE, [keys.prefix + where, keys.quarantine, keys.quarantined_jobs], arguments)
    return [bool(reply) for reply in replies]


def take_from_queue(
    redis: RunsScripts,
    queue: str,
    jobs: Sequence[Seen],
    *,
    days: float = 0,
    at: float = 0,
    how: str = "",
    out_of: str = "",
) -> list[bool]:
    """Move up to `BATCH` jobs of a queue into quarantine for ``days``; 0 deletes them permanently.

    Returns False for a job that was not found near its former position.

    Args:
        redis: their server.
        queue: queue to which they are restored.
        jobs: the jobs with their positions.
        days: retention in days.
        at: current time in epoch seconds.
        how: description of the action.
        out_of: key of the list that contains them, if it is not the queue.
    """
    keys = redis.keys
    mark = f"offsider:plucked:{secrets.token_hex(16)}"
    head = _head(f"queue:{queue}", 0, at, how)
    arguments: list[Argument] = [mark, _seconds(days), _TAKEN_MEANWHILE]
    for job in jobs:
        arguments += (-1 - job.position, _new_id(), head, job.raw)
    replies = redis.run(PLUCK, [out_of or keys.queue(queue), keys.quarantine, keys.quarantined_jobs], arguments)
    return [bool(reply) for reply in replies]


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


def restore(redis: RunsScripts, job: QuarantineEntry) -> bool:
    """Move a job back to the tail of its queue, or into its set with its old score. False if it is missing."""
    keys = redis.keys
    queue = job.where.removeprefix("queue:") if job.where.startswith("queue:") else ""
    target = [keys.quarantine, keys.quarantined_jobs, keys.prefix + job.where, keys.queues]
    return bool(redis.run(RESTORE, target, [job.id, queue, repr(job.score)]))


def delete(redis: Redis, identifier: str) -> bool:
    """Delete a job permanently. False if it is missing."""
    keys = redis.keys
    # The client that removes the job succeeds. An id without a job is ignored until it expires.
    commands = [("HDEL", keys.quarantined_jobs, identifier), ("ZREM", keys.quarantine, identifier)]
    return bool(redis.pipeline(commands)[0])


def size(redis: Redis) -> int:
    return int(redis.call("ZCARD", redis.keys.quarantine))


def ids(redis: Redis) -> list[bytes]:
    """Return the ids of all jobs, latest first."""
    found: list[bytes] = redis.call("ZRANGE", redis.keys.quarantine, 0, -1, "REV")
    return found


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
    pairs = zip(listed, stored, strict=True)
    return [_parse(identifier, until, kept) for (identifier, until), kept in pairs if kept is not None]


def _parse(identifier: bytes, until: float, stored: bytes) -> QuarantineEntry:
    head, _, raw = stored.partition(b"\n")
    fields = json_object(head)
    return QuarantineEntry(
        id=identifier.decode("utf-8", "replace"),
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
