"""The last failed attempts of a job: what is gone from its payload once it has failed again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

MOST = 10


def add(redis: Redis, attempts: Iterable[tuple[str, bytes, float]]) -> None:
    """Note attempts, each as jid, JSON, and the seconds for which they are kept from now on."""
    commands: list[Command] = []
    for jid, raw, keep_seconds in attempts:
        key = redis.keys.attempts(jid)
        commands += [("LPUSH", key, raw), ("LTRIM", key, 0, MOST - 1), ("EXPIRE", key, max(1, int(keep_seconds)))]
    if commands:
        redis.pipeline(commands)


def read(redis: Redis, jid: str) -> list[bytes]:
    """The attempts of a job, newest first."""
    stored: list[bytes] = redis.call("LRANGE", redis.keys.attempts(jid), 0, MOST - 1)
    return stored


def forget(redis: Redis, jids: Sequence[str]) -> None:
    """Drop the attempts of jobs that are done."""
    if jids:
        redis.call("UNLINK", *(redis.keys.attempts(jid) for jid in jids))
