"""Sidekiq's execution metrics: runs, failures, milliseconds and a histogram, per class and minute.

The format of Sidekiq 8 (all times in UTC):

1. hash ``j|YYMMDD|H:MM`` per minute, kept for 8 hours, and ``j|YYMMDD|H:M`` (without the last digit of the minute)
   per ten minutes, kept for 3 days; fields ``Class|ms``, ``Class|p``, ``Class|f``.
2. string ``h|Class-D-H:M``: 26 counters of 16 bits that stop at their maximum, kept for 8 hours.

With ``wire_version = 7``, minutes are ``j|YYYYMMDD|H:MM`` and histograms have no ``h|``, as in Sidekiq 7.3. That
version has no ten-minute hashes; offsider writes them anyway, for its own pages.

Deploy marks are a hash ``YYYYMMDD-marks`` of ISO minute -> label, kept for 90 days.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, cast

from offsider.core.series import SIDEKIQ_SECONDS, Series, regroup
from offsider.storage import hashes
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Command

MINUTE_EXPIRY_SECONDS = 8 * 60 * 60
TEN_MINUTES_EXPIRY_SECONDS = 3 * 24 * 60 * 60
MARKS_EXPIRY_SECONDS = 90 * 24 * 60 * 60
MARK_LOCK_SECONDS = 60
BUCKETS = len(SIDEKIQ_SECONDS) + 1


class ClassCounts(NamedTuple):
    """Stored counts of a class in one time bucket."""

    processed: int = 0
    failed: int = 0
    milliseconds: int = 0


@dataclass(frozen=True, order=True, slots=True)
class DeployMark:
    """A deploy.

    Attributes:
        at: the start of its minute, in epoch seconds.
        label: the text given by the deploy, such as a revision.
    """

    at: float
    label: str


def commands_of(keys: Keys, counted: Iterable[Series], at: datetime, *, wire_version: int) -> list[Command]:
    """Return the commands that add the counts of classes to the minute of ``at`` and its ten minutes.

    Zeros are not written. Sidekiq does not store the time of runs that raised.
    """
    commands: list[Command] = []
    minute, ten_minutes = keys.job_minute(at, wire_version), keys.job_ten_minutes(at)
    for one in counted:
        name, milliseconds = one.labels["class"], round((one.run_seconds - one.failed_seconds) * 1000)
        sums = (("ms", milliseconds), ("p", one.processed), ("f", one.failed))
        for key in (minute, ten_minutes):
            commands += [("HINCRBY", key, f"{name}|{field}", count) for field, count in sums if count]
        succeeded = [ran - failed for ran, failed in zip(one.run_buckets, one.failed_buckets, strict=True)]
        raised: list[Argument] = []
        for place, count in enumerate(regroup(succeeded, SIDEKIQ_SECONDS)):
            if count:
                raised += ("INCRBY", "u16", f"#{place}", count)
        if raised:
            histogram = keys.job_histogram(name, at, wire_version)
            commands.append(("BITFIELD", histogram, "OVERFLOW", "SAT", *raised))
            commands.append(("EXPIRE", histogram, MINUTE_EXPIRY_SECONDS))
    if commands:
        commands += [("EXPIRE", minute, MINUTE_EXPIRY_SECONDS), ("EXPIRE", ten_minutes, TEN_MINUTES_EXPIRY_SECONDS)]
    return commands


def minutes(redis: Redis, starts: Sequence[datetime]) -> list[dict[str, ClassCounts]]:
    """Read the counts of each minute, by class, in the formats of Sidekiq 7 and 8."""
    return _counts(redis, [[redis.keys.job_minute(at, version) for version in (8, 7)] for at in starts])


def has_minutes_of_7(redis: Redis, starts: Sequence[datetime]) -> bool:
    """Whether one of these minutes has the format of Sidekiq 7, which writes no ten-minute hashes."""
    return bool(redis.call("EXISTS", *(redis.keys.job_minute(at, 7) for at in starts)))


def ten_minutes(redis: Redis, starts: Sequence[datetime]) -> list[dict[str, ClassCounts]]:
    """Read the counts of each ten minutes, by class."""
    return _counts(redis, [[redis.keys.job_ten_minutes(at)] for at in starts])


def minutes_of(redis: Redis, name: str, starts: Sequence[datetime]) -> list[tuple[ClassCounts, list[int]]]:
    """Read the counts and histogram of one class for each minute."""
    fields = (f"{name}|ms", f"{name}|p", f"{name}|f")
    commands: list[Command] = []
    for at in starts:
        for version in (8, 7):
            commands.append(("HMGET", redis.keys.job_minute(at, version), *fields))
            commands.append(("GET", redis.keys.job_histogram(name, at, version)))
    replies = redis.pipeline(commands, raise_errors=False)
    read = [(_counts_of(replies[place]), _buckets(replies[place + 1])) for place in range(0, len(replies), 2)]
    return [
        (
            ClassCounts(*(sum(pair) for pair in zip(counts, older, strict=True))),
            [sum(pair) for pair in zip(buckets, others, strict=True)],
        )
        for (counts, buckets), (older, others) in zip(read[::2], read[1::2], strict=True)
    ]


def mark(redis: Redis, label: str, at: datetime) -> bool:
    """Store a deploy mark. Returns False if the label was stored within the last minute, or its minute has a mark."""
    minute = _minute(at)
    if not redis.call("SET", redis.keys.deploy_lock(label), minute, "NX", "EX", MARK_LOCK_SECONDS):
        return False
    key = redis.keys.deploy_marks(at)
    replies = redis.pipeline([("HSETNX", key, minute, label), ("EXPIRE", key, MARKS_EXPIRY_SECONDS)])
    return bool(replies[0])


def unmark(redis: Redis, at: datetime) -> None:
    """Delete the deploy mark of a minute."""
    redis.call("HDEL", redis.keys.deploy_marks(at), _minute(at))


def marks(redis: Redis, since: datetime, until: datetime) -> list[DeployMark]:
    """Return the deploy marks between two times, oldest first."""
    days = [since + timedelta(days=day) for day in range((until.date() - since.date()).days + 1)]
    replies = redis.pipeline([("HGETALL", redis.keys.deploy_marks(day)) for day in days], raise_errors=False)
    found: list[DeployMark] = []
    for reply in replies:
        for minute, label in hashes.texts(reply):
            try:
                at = datetime.fromisoformat(minute)
            except ValueError:
                continue
            at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
            if since.replace(second=0, microsecond=0) <= at <= until:
                found.append(DeployMark(at.timestamp(), label))
    return sorted(found)


def _minute(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:00Z")


def _counts(redis: Redis, keys: Sequence[Sequence[str]]) -> list[dict[str, ClassCounts]]:
    """Return the sum of the hashes of each time bucket, by class."""
    commands = [("HGETALL", key) for of_bucket in keys for key in of_bucket]
    replies = iter(redis.pipeline(commands, raise_errors=False) if commands else ())
    return [_by_class([next(replies) for _ in of_bucket]) for of_bucket in keys]


def _by_class(replies: Iterable[object]) -> dict[str, ClassCounts]:
    sums: dict[str, Counter[str]] = {}
    for reply in replies:
        for field, value in hashes.texts(reply):
            name, _, kind = field.rpartition("|")
            sums.setdefault(name, Counter[str]())[kind] += hashes.count(value)
    return {name: ClassCounts(kinds["p"], kinds["f"], kinds["ms"]) for name, kinds in sums.items() if name}


def _counts_of(reply: object) -> ClassCounts:
    if not isinstance(reply, list):
        return ClassCounts()
    milliseconds, processed, failed = map(hashes.count, cast("list[bytes | None]", reply))
    return ClassCounts(processed, failed, milliseconds)


def _buckets(stored: object) -> list[int]:
    raw = stored if isinstance(stored, bytes) else b""
    whole = raw[: 2 * BUCKETS].ljust(2 * BUCKETS, b"\0")
    return list(struct.unpack(f">{BUCKETS}H", whole))
