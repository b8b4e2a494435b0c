"""The last failed attempts of a job: what is gone from its payload once it has failed again.

They go when the job is done, when it is deleted by hand, and with the time; a dead set that is cut at each write would
leave them behind, so those of the jobs that failed longest ago make room as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

MOST = 10
#: Jobs whose attempts are kept, about.
MOST_JOBS = 10_000


def add(redis: Redis, attempts: Iterable[tuple[str, bytes, float]], now: float) -> None:
    """Note attempts.

    Args:
        attempts: each as jid, JSON, and the seconds for which they are kept from now on.
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
    if jobs > MOST_JOBS:
        oldest = redis.call("ZPOPMIN", every, jobs - MOST_JOBS)[::2]
        redis.call("UNLINK", *(redis.keys.attempts(jid.decode("utf-8", "replace")) for jid in oldest))


def read(redis: Redis, jid: str) -> list[bytes]:
    """The attempts of a job, newest first."""
    stored: list[bytes] = redis.call("LRANGE", redis.keys.attempts(jid), 0, MOST - 1)
    return stored


def forget(redis: Redis, jids: Sequence[str]) -> None:
    """Drop the attempts of jobs that are done, or deleted."""
    if jids:
        keys = [redis.keys.attempts(jid) for jid in jids]
        redis.pipeline([("UNLINK", *keys), ("ZREM", redis.keys.every_attempts, *jids)])
