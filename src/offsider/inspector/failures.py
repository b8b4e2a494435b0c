"""Failed runs: the last attempts of a job; and errors by job class, error class and top application frame."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.error_text import Frame
from offsider.storage import attempts, error_groups, run_counts
from offsider.storage.attempts import LogLine as LogLine  # noqa: PLC0414  # a public name of this module
from offsider.storage.error_groups import (  # public names of this module
    ErrorGroup as ErrorGroup,  # noqa: PLC0414
    ErrorMinute as ErrorMinute,  # noqa: PLC0414
)
from offsider.storage.hashes import text_field


class ErrorGroups:
    """The error groups of one server: at most 500, each stored for 30 days after its last error.

    Args:
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        server = Installation.of(config)
        self._redis, self._clock = server.redis, server.config.clock

    def __len__(self) -> int:
        return len(error_groups.ids(self._redis))

    def page(
        self, start: int = 0, count: int = 50, *, order: Literal["jobs", "last_seen", "first_seen"] = "last_seen"
    ) -> list[ErrorGroup]:
        """Return one page of groups, from ``start`` (from 0): most jobs, latest error or newest group first."""
        ids = error_groups.ids(self._redis)
        if order == "jobs":
            ids = error_groups.by_jobs(self._redis, ids)
        elif order == "first_seen":
            ids = error_groups.by_age(self._redis, ids)
        return error_groups.read(self._redis, ids[start : start + count])

    def of_class(self, name: str, since: float) -> list[ErrorGroup]:
        """Return the groups of a job class with an error since a time in epoch seconds, latest error first."""
        recent = [found for found in error_groups.ids(self._redis) if found[1] >= since]
        return error_groups.read(self._redis, error_groups.of_class(self._redis, recent, name))

    def find(self, group_id: str) -> ErrorGroup | None:
        """Return the group with this ID; None if it no longer exists."""
        ids = [found for found in error_groups.ids(self._redis) if found[0] == group_id]
        return next(iter(error_groups.read(self._redis, ids)), None)

    def minutes(self, group_id: str, since: float, until: float) -> list[ErrorMinute]:
        """Return the failed runs of a group by minute and release, from ``since`` to ``until`` (epoch seconds).

        Minutes are kept for eight hours. Those without failures are left out.
        """
        return error_groups.minutes(self._redis, since, until, group_id)

    def minutes_of_all(self, since: float, until: float) -> list[ErrorMinute]:
        """Like `minutes`, of all groups."""
        return error_groups.minutes(self._redis, since, until)

    def resolve(self, group_id: str, release: str = "") -> bool:
        """Mark a group as resolved; False if it no longer exists.

        It returns when a release fails in which it has not failed before, or a process without a release.

        Args:
            release: the release that resolves it: it returns in this release or a later one, one that has not run yet.
        """
        ran = {one.labels.get("release", "") for one in run_counts.release_totals(self._redis)} if release else ()
        return error_groups.resolve(self._redis, group_id, self._clock.now(), release, ran)

    def mute(self, group_id: str, until: float) -> bool:
        """Mute a group until a time in epoch seconds. Returns False if it no longer exists."""
        return error_groups.mute(self._redis, group_id, until)

    def reopen(self, group_id: str) -> bool:
        """Undo `resolve` and `mute`; False if the group is neither resolved nor muted."""
        return error_groups.reopen(self._redis, group_id)

    def delete(self, group_id: str) -> bool:
        """Delete a group until such an error happens again. Returns False if it no longer exists."""
        return error_groups.delete(self._redis, group_id)

    def clear(self) -> int:
        """Delete all groups, and return their number."""
        return error_groups.clear(self._redis)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One failed run.

    Attributes:
        number: number of the attempt, from 1.
        at: time of the failure, in epoch seconds.
        host: process that ran it, as ``host:pid``.
        error_class, error_message: the error; a long message is truncated.
        duration_seconds: execution time.
        release: release of the process; empty if unknown.
        frame: top application frame of the error; empty if unknown.
        log: the last lines that the job wrote to the log, up to 20 with up to 2,000 characters; only of the last three
            attempts.
    """

    number: int
    at: float
    host: str
    error_class: str
    error_message: str
    duration_seconds: float
    release: str = ""
    frame: Frame = Frame()  # noqa: RUF009  # immutable
    log: Sequence[LogLine] = ()


class Attempts:
    """Reads failed attempts. The last ten are stored while the job is in the retry or dead set."""

    @classmethod
    def of(cls, jid: str, config: Config | Installation | None = None) -> list[Attempt]:
        """Return the failed attempts of a job, newest first."""
        server = Installation.of(config)
        stored, logs = attempts.read(server.redis, jid)
        read = (_attempt(raw, logs) for raw in stored)
        return [attempt for attempt in read if attempt is not None]


def _attempt(raw: bytes, logs: Mapping[float, Sequence[LogLine]]) -> Attempt | None:
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
            text_field(fields.get("release")),
            Frame(*fields.get("frame", ())),
            logs.get(float(fields["at"]), ()),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
