"""Counts of similar errors by group. Above `MOST` groups, the least recently seen are deleted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from offsider.storage.commands import run_together
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Command, Script

NOTE_ERRORS = Script("note_errors")

MOST = 500
KEEP_SECONDS = 30 * 24 * 60 * 60
#: Number of hours with a count of their own.
HOURS = 48
#: Characters of a message that are compared.
MESSAGE_CHARACTERS = 500
# Parts of a message that differ between errors of one group: ids, addresses, amounts.
_PARTICULAR = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*\b|\d+")
_ID = re.compile(rb"[0-9a-f]+")
_FIELDS = ("count", "first", "info", "jid", *(f"h{place}" for place in range(HOURS)))


@dataclass(frozen=True, slots=True)
class Noted:
    """Errors of one group since the last flush.

    Attributes:
        id: id of the group.
        count: number of errors.
        at: time of the last error, in epoch seconds.
        info: JSON of the fields that they share.
        jid: id of the job that raised the last error.
    """

    id: str
    count: int
    at: float
    info: str
    jid: str


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A stored group. ``hours`` maps an hour (epoch seconds // 3600) to its count."""

    id: str
    last_at: float
    count: int
    first_at: float
    info: bytes
    jid: str
    hours: dict[int, int] = field(default_factory=dict[int, int])


def group_of(name: str, error_class: str, message: str) -> str:
    """Return the group id of an error. Errors that differ only in numbers and ids share a group."""
    alike = _PARTICULAR.sub("#", message[:MESSAGE_CHARACTERS])
    return hashlib.sha256(f"{name}\0{error_class}\0{alike}".encode()).hexdigest()[:16]


def note(redis: Redis, noted: Iterable[Noted]) -> None:
    """Count errors."""
    arguments: list[Argument] = [MOST, KEEP_SECONDS, HOURS]
    for each in noted:
        arguments += (each.id, each.count, repr(each.at), each.info, each.jid)
    if len(arguments) > 3:
        redis.run(NOTE_ERRORS, [redis.keys.errors, redis.keys.error_fields], arguments)


def ids(redis: Redis) -> list[tuple[str, float]]:
    """Return each group id with the time it was last seen, most recent first."""
    reply = redis.call("ZREVRANGE", redis.keys.errors, 0, -1, "WITHSCORES")
    # An id is hexadecimal; other members were not written by offsider.
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return [(group.decode(), float(score)) for group, score in pairs if _ID.fullmatch(group)]


def read(redis: Redis, wanted: Sequence[tuple[str, float]]) -> list[StoredGroup]:
    """Read the groups of these ids; a group that was deleted since is omitted."""
    replies = redis.pipeline(
        [("HMGET", redis.keys.error_fields, *(f"{group}:{name}" for name in _FIELDS)) for group, _ in wanted]
    )
    found: list[StoredGroup] = []
    for (group, last_at), (count, first, info, jid, *hours) in zip(wanted, replies, strict=True):
        if None in (count, first, info, jid):
            continue
        with suppress(ValueError):  # written by another program
            counted = dict(_hour(stored) for stored in hours if stored is not None)
            shown = jid.decode("utf-8", "replace")
            found.append(StoredGroup(group, last_at, int(count), float(first), info, shown, counted))
    return found


def delete(redis: Redis, groups: Sequence[str]) -> int:
    """Delete groups; returns how many existed."""
    commands: list[Command] = []
    for group in groups:
        commands.append(("ZREM", redis.keys.errors, group))
        commands.append(("HDEL", redis.keys.error_fields, *(f"{group}:{name}" for name in _FIELDS)))
    return sum(run_together(redis, *commands)[::2])


def clear(redis: Redis) -> int:
    """Delete all groups; returns how many existed."""
    keys = redis.keys
    groups, *_ = run_together(redis, ("ZCARD", keys.errors), ("UNLINK", keys.errors), ("UNLINK", keys.error_fields))
    return int(groups)


def _hour(stored: bytes) -> tuple[int, int]:
    hour, _, count = stored.partition(b":")
    return int(hour), int(count)
