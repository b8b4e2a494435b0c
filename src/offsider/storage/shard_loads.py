"""How long the threads of each shard ran jobs, and how long there were threads: sums, and minute by minute.

Workers that were started without a shard are the shard ``""``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from offsider.storage import hashes
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

KEEP_SECONDS = int(timedelta(days=30).total_seconds())
#: Minutes are kept for so many hours, the running one among them.
HOURS = 8
_HOUR = 3600
_RUN, _THREADS = "run", "threads"
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Load:
    """What threads did: the seconds that they ran jobs, and the seconds that they were there, each thread's added."""

    run_seconds: float = 0.0
    thread_seconds: float = 0.0

    def __add__(self, other: Load) -> Load:
        return Load(self.run_seconds + other.run_seconds, self.thread_seconds + other.thread_seconds)


def commands_of(keys: Keys, shard: str, load: Load, now: float) -> list[Command]:
    """The commands that add to the sums of a shard, and to the minute of ``now`` (epoch seconds)."""
    hour = keys.load(str(int(now // _HOUR)))
    minute = int(now % _HOUR // 60)
    commands: list[Command] = []
    for kind, seconds in ((_RUN, load.run_seconds), (_THREADS, load.thread_seconds)):
        if seconds > 0:
            commands.append(("HINCRBYFLOAT", keys.loads, f"{kind}|{shard}", repr(seconds)))
            commands.append(("HINCRBYFLOAT", hour, f"{minute}|{kind}|{shard}", repr(seconds)))
    if commands:
        commands += [("EXPIRE", keys.loads, KEEP_SECONDS), ("EXPIRE", hour, HOURS * _HOUR)]
    return commands


def totals(redis: Redis) -> dict[str, Load]:
    """Shard -> everything since its sums began."""
    sums: dict[str, Load] = {}
    [reply] = redis.pipeline([("HGETALL", redis.keys.loads)], raise_errors=False)
    for field, seconds in _seconds(reply):
        kind, _, shard = field.partition("|")
        _add(sums, shard, kind, seconds)
    return sums


def minutes(redis: Redis, since: float, until: float) -> dict[str, dict[float, Load]]:
    """Shard -> start of each minute between two moments (epoch seconds) that has something -> what it has."""
    first, last = int(since // _HOUR), int(until // _HOUR)
    hours = list(range(max(first, last - HOURS), last + 1))
    replies = redis.pipeline([("HGETALL", redis.keys.load(str(hour))) for hour in hours], raise_errors=False)
    found: dict[str, dict[float, Load]] = {}
    for hour, reply in zip(hours, replies, strict=True):
        for field, seconds in _seconds(reply):
            minute, _, rest = field.partition("|")
            kind, _, shard = rest.partition("|")
            at = hour * _HOUR + int(minute) * 60.0 if minute.isdecimal() and len(minute) < 3 else -math.inf
            if since // 60 * 60 <= at <= until:
                _add(found.setdefault(shard, {}), at, kind, seconds)
    return found


def _seconds(reply: object) -> Iterable[tuple[str, float]]:
    """The fields of a hash that are seconds."""
    for field, value in hashes.texts(reply):
        try:
            seconds = float(value)
        except ValueError:
            continue
        if math.isfinite(seconds):
            yield field, seconds


def _add(sums: dict[_Key, Load], key: _Key, kind: str, seconds: float) -> None:
    more = {_RUN: Load(run_seconds=seconds), _THREADS: Load(thread_seconds=seconds)}.get(kind)
    if more is not None:
        sums[key] = sums.get(key, Load()) + more
