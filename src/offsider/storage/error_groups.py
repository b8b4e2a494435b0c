"""Errors that are alike, counted together when they happen; the groups that were not seen for longest make room."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from offsider.storage.job_sets import CLEAR_SET
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Script

NOTE_ERRORS = Script("note_errors")
FORGET_ERRORS = Script("forget_errors")

MOST = 500
KEEP_SECONDS = 30 * 24 * 60 * 60
#: So many hours are counted one by one.
HOURS = 48
_ID = re.compile(rb"[0-9a-f]+")
_FIELDS = ("count", "first", "info", "jid", *(f"h{place}" for place in range(HOURS)))


@dataclass(frozen=True, slots=True)
class Noted:
    """Errors of one group that happened since the last time.

    Attributes:
        id: of the group, the same for errors that are alike.
        count: how many.
        at: epoch seconds of the last one.
        info: JSON of what they have in common.
        jid: of the job that raised the last one.
    """

    id: str
    count: int
    at: float
    info: str
    jid: str


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group as it was read. ``hours`` is hour (epoch seconds // 3600) -> count."""

    id: str
    last_at: float
    count: int
    first_at: float
    info: bytes
    jid: str
    hours: dict[int, int] = field(default_factory=dict[int, int])


def note(redis: Redis, noted: Iterable[Noted]) -> None:
    """Count errors."""
    arguments: list[Argument] = [MOST, KEEP_SECONDS, HOURS]
    for each in noted:
        arguments += (each.id, each.count, repr(each.at), each.info, each.jid)
    if len(arguments) > 3:
        redis.run(NOTE_ERRORS, [redis.keys.errors, redis.keys.error_fields], arguments)


def ids(redis: Redis) -> list[tuple[str, float]]:
    """Every group and when it was last seen, that one first."""
    reply = redis.call("ZREVRANGE", redis.keys.errors, 0, -1, "WITHSCORES")
    # An id is hexadecimal; whatever else is there was not written by us.
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return [(group.decode(), float(score)) for group, score in pairs if _ID.fullmatch(group)]


def read(redis: Redis, wanted: Sequence[tuple[str, float]]) -> list[StoredGroup]:
    """The groups of these ids; one that has made room meanwhile is left out."""
    replies = redis.pipeline(
        [("HMGET", redis.keys.error_fields, *(f"{group}:{name}" for name in _FIELDS)) for group, _ in wanted]
    )
    found: list[StoredGroup] = []
    for (group, last_at), (count, first, info, jid, *hours) in zip(wanted, replies, strict=True):
        if None in (count, first, info, jid):
            continue
        with suppress(ValueError):  # somebody else wrote there
            counted = dict(_hour(stored) for stored in hours if stored is not None)
            shown = jid.decode("utf-8", "replace")
            found.append(StoredGroup(group, last_at, int(count), float(first), info, shown, counted))
    return found


def delete(redis: Redis, groups: Sequence[str]) -> int:
    """Forget groups; answers how many there were."""
    if not groups:
        return 0
    return int(redis.run(FORGET_ERRORS, [redis.keys.errors, redis.keys.error_fields], [HOURS, *groups]))


def clear(redis: Redis) -> int:
    """Forget all groups; answers how many there were."""
    return int(redis.run(CLEAR_SET, [redis.keys.errors, redis.keys.error_fields]))


def _hour(stored: bytes) -> tuple[int, int]:
    hour, _, count = stored.partition(b":")
    return int(hour), int(count)
