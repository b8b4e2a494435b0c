"""Failed runs: the last attempts of a job; and errors by job class, error class and message, counted as they happen."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.storage import attempts, error_groups
from offsider.storage.error_groups import StoredGroup
from offsider.storage.hashes import json_object

_HOUR_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Errors of one group: their messages differ only in numbers, IDs and quoted values.

    Attributes:
        id: ID of the group, used in links.
        name: job class.
        error_class: class of the errors.
        message: message of the first error, truncated if long.
        count: number of errors since `first_at`.
        first_at, last_at: times of the first and the last error, in epoch seconds.
        queue: queue of the first job.
        last_jid: jid of the last job.
        recent: start of an hour (epoch seconds) -> number of errors, for up to 48 hours.
    """

    id: str
    name: str
    error_class: str
    message: str
    count: int
    first_at: float
    last_at: float
    queue: str
    last_jid: str
    recent: Mapping[int, int]


class ErrorGroups:
    """The error groups of one server: at most 500, each stored for 30 days after its last error.

    Args:
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        server = Installation.of(config)
        self._redis = server.redis

    def __len__(self) -> int:
        return len(error_groups.ids(self._redis))

    def page(
        self, start: int = 0, count: int = 50, *, order: Literal["count", "last_seen"] = "last_seen"
    ) -> list[ErrorGroup]:
        """Return one page of groups, from ``start`` (from 0), most errors or latest error first."""
        ids = error_groups.ids(self._redis)
        if order == "last_seen":
            return [_group(stored) for stored in error_groups.read(self._redis, ids[start : start + count])]
        read = sorted(error_groups.read(self._redis, ids), key=lambda stored: -stored.count)
        return [_group(stored) for stored in read[start : start + count]]

    def find(self, group_id: str) -> ErrorGroup | None:
        """Return the group with this ID; None if it no longer exists."""
        ids = [found for found in error_groups.ids(self._redis) if found[0] == group_id]
        return next((_group(stored) for stored in error_groups.read(self._redis, ids)), None)

    def delete(self, group_id: str) -> bool:
        """Delete a group until such an error happens again. Returns False if it no longer exists."""
        return bool(error_groups.delete(self._redis, [group_id]))

    def clear(self) -> int:
        """Delete all groups, and return their number."""
        return error_groups.clear(self._redis)


def _group(stored: StoredGroup) -> ErrorGroup:
    info = json_object(stored.info)
    text: Callable[[str], str] = lambda key: str(info.get(key, ""))  # noqa: E731  # used only below
    return ErrorGroup(
        id=stored.id,
        name=text("class"),
        error_class=text("error_class"),
        message=text("message"),
        count=stored.count,
        first_at=stored.first_at,
        last_at=stored.last_at,
        queue=text("queue"),
        last_jid=stored.jid,
        recent={hour * _HOUR_SECONDS: count for hour, count in sorted(stored.hours.items())},
    )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One failed run.

    Attributes:
        number: number of the attempt, from 1.
        at: time of the failure, in epoch seconds.
        host: process that ran it, as ``host:pid``.
        error_class, error_message: the error; a long message is truncated.
        duration_seconds: execution time.
    """

    number: int
    at: float
    host: str
    error_class: str
    error_message: str
    duration_seconds: float


class Attempts:
    """Reads failed attempts. The last ten are stored while the job is in the retry or dead set."""

    @classmethod
    def of(cls, jid: str, config: Config | Installation | None = None) -> list[Attempt]:
        """Return the failed attempts of a job, newest first."""
        server = Installation.of(config)
        read = (_attempt(raw) for raw in attempts.read(server.redis, jid))
        return [attempt for attempt in read if attempt is not None]


def _attempt(raw: bytes) -> Attempt | None:
    """Parse a stored attempt; None if it is malformed."""
    try:
        fields = cast("dict[str, Any]", json.loads(raw))
        return Attempt(
            int(fields["number"]),
            float(fields["at"]),
            str(fields["host"]),
            str(fields["error_class"]),
            str(fields["error_message"]),
            float(fields["duration"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
