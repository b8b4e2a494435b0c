"""Quarantine: jobs removed by a bulk purge or a control, kept for some days with their origin.

A sorted set contains ids, scored by expiry in epoch seconds. A hash maps each id to a line of JSON and the payload.
Each move in or out is one script, so a job is always in exactly one place.
"""

from __future__ import annotations

import json
import secrets

from offsider.storage import job_sets
from offsider.storage.places import Move, MoveTarget, PlacedJob, quarantined
from offsider.storage.redis import Redis
from offsider.storage.scripts import RunsScripts
from offsider.storage.working import PrivateListEntry, settle

#: Size from which controls delete the jobs that they drop; jobs that an operator quarantines are always kept.
MAX_JOBS = 100_000
_TRIMMED_AT_ONCE = 1_000


def move_of(job: PlacedJob, where: str, *, at: float, how: str) -> Move:
    """Return the move of a job into quarantine.

    Args:
        job: the job.
        where: the place to which it is restored.
        at: current time in epoch seconds.
        how: description of the action.
    """
    return Move(job.raw, _head(where, job.score, at, how).encode(), _new_id(), job.position)


def for_days(days: float) -> MoveTarget:
    """Return the target of a move into the quarantine."""
    return MoveTarget("quarantine", seconds=_seconds(days))


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
    places = keys.quarantine, keys.quarantined_jobs
    return settle(
        redis, entry, head, to="quarantine", keys=places, amount=_seconds(days), most=most, identifier=_new_id()
    )


def add(redis: Redis, raw: bytes, queue: str, *, days: float, most: int, at: float, how: str) -> None:
    """Add a job that is stored nowhere else, with the limits of `put_from_run`."""
    if size(redis) >= most:
        return
    keys = redis.keys
    identifier = _new_id()
    stored = _head(f"queue:{queue}", 0, at, how).encode() + b"\n" + raw
    until = int(redis.call("TIME")[0]) + _seconds(days)
    redis.pipeline([("HSET", keys.quarantined_jobs, identifier, stored), ("ZADD", keys.quarantine, until, identifier)])


def size(redis: Redis) -> int:
    return int(redis.call("ZCARD", redis.keys.quarantine))


def page(redis: Redis, start: int, count: int, *, newest_first: bool = True) -> list[PlacedJob]:
    """Return a page of jobs, in the order of their expiry."""
    return quarantined(redis, job_sets.page(redis, redis.keys.quarantine, start, count, newest_first=newest_first))


def find(redis: Redis, identifier: str) -> PlacedJob | None:
    """Return the job with this id, or None."""
    until = redis.call("ZSCORE", redis.keys.quarantine, identifier)
    found = [] if until is None else quarantined(redis, [(identifier.encode(), float(until))])
    return found[0] if found else None


def trim(redis: Redis) -> None:
    """Delete a batch of expired jobs."""
    keys = redis.keys
    now = int(redis.call("TIME")[0])
    overdue = redis.call("ZRANGE", keys.quarantine, "-inf", f"({now}", "BYSCORE", "LIMIT", 0, _TRIMMED_AT_ONCE)
    if overdue:
        redis.pipeline([("HDEL", keys.quarantined_jobs, *overdue), ("ZREM", keys.quarantine, *overdue)])


def _head(where: str, score: float, at: float, how: str) -> str:
    return json.dumps({"where": where, "score": float(score), "at": float(at), "how": how}, separators=(",", ":"))


def _new_id() -> str:
    return secrets.token_hex(8)


def _seconds(days: float) -> int:
    return int(days * 86_400)
