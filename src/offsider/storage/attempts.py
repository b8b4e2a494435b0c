"""The last failed attempts of a job: the payload itself stores only the latest error.

Attempts are deleted when the job succeeds, when an operator deletes it, and by expiry. Trimming the dead set deletes
none, so the number of jobs is limited too: those that failed longest ago are deleted first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

MOST = 10
#: Approximate maximum number of jobs with attempts.
MAX_JOBS = 10_000


def add(redis: Redis, attempts: Iterable[tuple[str, bytes, float]], now: float) -> None:
    """Store attempts.

    Args:
        attempts: jid, JSON and expiry in seconds of each.
        now: epoch seconds.
    """
    every, commands = redis.keys.every_attempts, list[Command]()
    for jid, raw, keep_seconds in attempts:
        key = redis.keys.attempts(jid)
        commands += [("LPUSH", key, raw), ("LTRIM", key, 0, MOST - 1), ("EXPIRE", key, max(1, int(keep_seconds)))]
        commands.append(("ZADD", every, now, jid))
    if not commands:
        return
    *_, jobs = redis.pipeline([*commands, ("ZCARD", every)])
    if jobs > MAX_JOBS:
        oldest = redis.call("ZPOPMIN", every, jobs - MAX_JOBS)[::2]
        redis.call("UNLINK", *(redis.keys.attempts(jid.decode("utf-8", "replace")) for jid in oldest))


def read(redis: Redis, jid: str) -> list[bytes]:
    """Return the attempts of a job, newest first."""
    stored: list[bytes] = redis.call("LRANGE", redis.keys.attempts(jid), 0, MOST - 1)
    return stored


def forget(redis: Redis, jids: Sequence[str]) -> None:
    """Delete the attempts of jobs."""
    if jids:
        keys = [redis.keys.attempts(jid) for jid in jids]
        redis.pipeline([("UNLINK", *keys), ("ZREM", redis.keys.every_attempts, *jids)])
