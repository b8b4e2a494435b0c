"""Failed runs by error: class of the job, class of the error, and top application frame.

1. A hash per group has its totals and facts. Its counts per minute and release are the series `ERRORS`.
2. The hash counts the values of each facet. Above `MAX_FIELDS` fields, those with the lowest counts are deleted: counts
   of frequent values are exact, or too low by the errors that were counted before such a deletion.
3. Users are counted with a HyperLogLog, with an error of about 1 %.
4. Above `MAX_GROUPS` groups, the least recently seen are deleted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, cast

from offsider.core.error_text import Frame
from offsider.core.errors import RedisUnavailable
from offsider.storage import events, series
from offsider.storage.hashes import count, json_value, number, number_field, pairs, scores, text
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Command, run_together
from offsider.storage.series import MINUTE, Metric

#: Failed runs, jobs and deaths by group and release.
ERRORS = Metric("errors", 3, (MINUTE,), bits=32, max_label_sets=2_000)

MAX_GROUPS = 500
#: A group without an error for this time returns with the next one.
QUIET_SECONDS = 24 * 60 * 60
#: Events of new groups in one step: a flood of groups must not fill the event log.
MAX_EVENTS = 10
KEEP_SECONDS = 30 * 24 * 60 * 60
MAX_MESSAGE_CHARACTERS = 500
MAX_TRACEBACK_CHARACTERS = 4_000
#: Counted by value, in this order.
FACETS = ("release", "host", "caller", "tenant", "user", "message")
#: Values of a facet that are read, and that remain when values are deleted.
MAX_VALUES, KEPT_VALUES = 8, 16
MAX_VALUE_CHARACTERS = 200
#: Fields of the hash of a group.
MAX_FIELDS = 300

# Parts of a message that differ between errors of one kind: ids, addresses, amounts.
_PARTICULAR = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*\b|\d+")
_ID = re.compile(rb"[0-9a-f]+")
_TOTALS = ("attempts", "jobs", "deaths")
_RESOLVED = ("resolved_at", "resolved_in")


@dataclass(frozen=True, slots=True)
class FailedRun:
    """One failed run of a job.

    Attributes:
        name: job class.
        error_class, message: the error.
        frame: top application frame; empty without one.
        at: end of the run in epoch seconds.
        release: release of the process.
        is_first: the first run of its job that failed with this error, or the first since another error.
        died: the job will not be retried.
        queue, jid: of the job.
        host, caller, tenant, user: where it ran and for whom; empty if unknown.
    """

    name: str
    error_class: str
    message: str
    frame: Frame
    at: float
    release: str = ""
    is_first: bool = True
    died: bool = False
    queue: str = ""
    jid: str = ""
    host: str = ""
    caller: str = ""
    tenant: str = ""
    user: str = ""

    @property
    def group(self) -> str:
        """ID of its group."""
        return group_of(self.name, self.error_class, self.frame.name)


@dataclass(slots=True)
class Noted:
    """Failed runs of one group that are not stored yet.

    Attributes:
        last: the last of them.
        traceback: traceback of one of them.
        minutes: start of the minute and release -> failed runs, jobs, deaths.
        values: facet -> value -> failed runs.
    """

    last: FailedRun
    traceback: str
    first_at: float
    minutes: dict[tuple[float, str], list[int]] = field(default_factory=dict[tuple[float, str], list[int]])
    values: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in FACETS})

    def add_later(self, later: Noted) -> None:
        """Count what was noted after these failed runs."""
        self.last, self.traceback = later.last, later.traceback or self.traceback
        for of, cells in later.minutes.items():
            self.minutes[of] = [sum(pair) for pair in zip(self.minutes.get(of, (0, 0, 0)), cells, strict=True)]
        for name, values in later.values.items():
            self.values[name].update(values)

    def add(self, run: FailedRun) -> None:
        """Count a failed run."""
        self.last = run
        self.first_at = min(self.first_at, run.at)
        cells = self.minutes.setdefault((run.at // MINUTE.seconds * MINUTE.seconds, run.release), [0, 0, 0])
        for place, counted in enumerate((True, run.is_first, run.died)):
            cells[place] += counted
        for name, values in self.values.items():
            value = _PARTICULAR.sub("#", run.message) if name == "message" else getattr(run, name)
            if value:
                values[value[:MAX_VALUE_CHARACTERS]] += 1


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failed runs of one class with one class of error from one function.

    Attributes:
        id: ID of the group, used in links.
        name: job class.
        error_class: class of the errors.
        frame: the top application frame of the last error: file, function and line; empty if unknown.
        message: message of the last error, truncated if long.
        attempts: failed runs since `first_at`.
        jobs: jobs that failed with this error; a job counts again if it failed with another error in between.
        deaths: jobs that this error ended: moved to the dead set, or discarded.
        first_at, last_at: times of the first and the last error, in epoch seconds.
        first_release, last_release: releases of the first and the last error; empty if unknown.
        resolved_at: when an operator resolved it; None if it is open.
        returned_at: when it failed again after a day without errors, or after an operator had resolved it in another
            release; None if it did not.
        muted_until: until when it is muted, in epoch seconds; None if it is not.
        queue, last_jid: of the last job.
        user_count: estimated number of distinct values of ``meta.user``.
        releases, hosts, callers, tenants, users: the most frequent values -> failed runs, at most 8 of each.
        messages: the most frequent messages, with ``#`` in place of numbers and IDs -> failed runs.
        traceback: traceback of one of the latest errors, its last 4,000 characters.
    """

    id: str
    name: str
    error_class: str
    frame: Frame
    message: str
    attempts: int
    jobs: int
    deaths: int
    first_at: float
    last_at: float
    first_release: str
    last_release: str
    resolved_at: float | None
    returned_at: float | None
    muted_until: float | None
    queue: str
    last_jid: str
    user_count: int
    releases: Mapping[str, int]
    hosts: Mapping[str, int]
    callers: Mapping[str, int]
    tenants: Mapping[str, int]
    users: Mapping[str, int]
    messages: Mapping[str, int]
    traceback: str


@dataclass(frozen=True, slots=True)
class ErrorMinute:
    """Failed runs of one group and release that ended in one minute.

    Attributes:
        group: ID of the group.
        at: start of the minute in epoch seconds.
        release: release of the process; empty if unknown.
        attempts, jobs, deaths: as in `ErrorGroup`.
    """

    group: str
    at: float
    release: str
    attempts: int
    jobs: int
    deaths: int


def group_of(name: str, error_class: str, frame: str) -> str:
    """Return the ID of the group of a job class, a class of errors and the name of a frame."""
    return hashlib.sha256(f"{name}\0{error_class}\0{frame}".encode()).hexdigest()[:16]


def note(redis: Redis, noted: Mapping[str, Noted]) -> None:
    """Store failed runs by group.

    Raises:
        RedisUnavailable: none was stored, unless it is ``ambiguous``.
    """
    if not noted:
        return
    keys = redis.keys
    before: list[Command] = []
    for group in noted:
        before += [("ZSCORE", keys.errors, group), ("HMGET", keys.error(group), *_RESOLVED)]
    commands = [command for group, each in noted.items() for command in _commands_of(redis, group, each)]
    commands += _series_of(redis, noted)
    latest = max(each.last.at for each in noted.values())
    sizes: list[Command] = [("HLEN", keys.error(group)) for group in noted]
    excess = ("ZRANGE", keys.errors, 0, -MAX_GROUPS - 1)
    expired = ("ZRANGEBYSCORE", keys.errors, "-inf", latest - KEEP_SECONDS, "LIMIT", 0, 100)
    replies = run_together(redis, *before, *commands, *sizes, excess, expired)
    try:
        _follow_up(redis, noted, latest, *replies)
    except RedisUnavailable as error:
        raise RedisUnavailable(str(error), ambiguous=True) from error  # the failed runs are stored


def _follow_up(redis: Redis, noted: Mapping[str, Noted], latest: float, *all_replies: Any) -> None:
    """Delete what exceeds the limits, and write the events of new groups and of those that return."""
    keys = redis.keys
    *replies, dropped, old = all_replies
    for group, size in zip(noted, replies[-len(noted) :], strict=True):
        if size > MAX_FIELDS:
            _trim(redis, group)
    for group in {*dropped, *old}:
        delete(redis, text(group))
    series.trim(redis, [ERRORS], latest)
    told: list[Command] = []
    for (group, each), last_at, resolved in zip(noted.items(), replies[::2], replies[1::2], strict=False):
        kind, last = events.ERROR_NEW, each.last
        if last_at is not None:
            if not _returns(each, float(last_at), *resolved):
                continue
            kind, key = events.ERROR_RETURNED, keys.error(group)
            run_together(redis, ("HDEL", key, *_RESOLVED), ("HSET", key, "returned_at", repr(last.at)))
        about = {"error_class": last.error_class, "release": last.release, "jid": last.jid}
        told.append(events.command(keys, kind, last.name, group=group, **about))
    for command in told[:MAX_EVENTS]:
        events.note_command(redis, command)


def _returns(noted: Noted, last_at: float, resolved_at: bytes | None, resolved_in: bytes | None) -> bool:
    """Whether a group returns: after `QUIET_SECONDS`, or in a release in which it was not resolved."""
    if resolved_at is None:
        return last_at <= noted.first_at - QUIET_SECONDS
    stored = json_value(resolved_in or b"")
    known = cast("list[object]", stored) if isinstance(stored, list) else []
    return any(not release or release not in known for _, release in noted.minutes)


def _series_of(redis: Redis, noted: Mapping[str, Noted]) -> list[Command]:
    by_minute: dict[float, list[tuple[dict[str, str], list[int]]]] = {}
    for group, each in noted.items():
        for (minute, release), cells in each.minutes.items():
            by_minute.setdefault(minute, []).append(({"group": group, "release": release}, cells))
    return [
        command
        for minute, added in by_minute.items()
        for command in series.commands_of(redis.keys, ERRORS, added, minute)
    ]


def _commands_of(redis: Redis, group: str, noted: Noted) -> list[Command]:
    key, users, last = redis.keys.error(group), redis.keys.error_users(group), noted.last
    first: dict[str, Argument] = {
        "class": last.name, "error_class": last.error_class, "file": last.frame.file, "function": last.frame.function,
        "first_at": repr(noted.first_at), "first_release": last.release,
    }  # fmt: skip
    latest: dict[str, Argument] = {
        "message": last.message, "line": last.frame.line, "last_release": last.release, "queue": last.queue,
        "jid": last.jid,
    }  # fmt: skip
    if noted.traceback:
        latest["traceback"] = noted.traceback
    totals = [sum(cells) for cells in zip(*noted.minutes.values(), strict=True)]
    commands: list[Command] = [("HSETNX", key, name, value) for name, value in first.items()]
    commands.append(("HSET", key, *(part for pair in latest.items() for part in pair)))
    commands += [("HINCRBY", key, name, total) for name, total in zip(_TOTALS, totals, strict=True)]
    for name, values in noted.values.items():
        commands += [("HINCRBY", key, f"{name}:{value}", hits) for value, hits in values.most_common(KEPT_VALUES)]
    if noted.values["user"]:
        commands += [("PFADD", users, *noted.values["user"]), ("EXPIRE", users, KEEP_SECONDS)]
    return [*commands, ("EXPIRE", key, KEEP_SECONDS), ("ZADD", redis.keys.errors, "GT", last.at, group)]


def _trim(redis: Redis, group: str) -> None:
    """Delete the values with the lowest counts."""
    key = redis.keys.error(group)
    fields = dict(pairs(redis.call("HGETALL", key)))
    kept = {f"{name}:{value}" for name in FACETS for value in _top(fields, name, KEPT_VALUES)}
    surplus = [field for field in fields if b":" in field and text(field) not in kept]
    redis.call("HDEL", key, *surplus)


def ids(redis: Redis) -> list[tuple[str, float]]:
    """Return each group id with the time it was last seen, most recent first."""
    reply = redis.call("ZREVRANGE", redis.keys.errors, 0, -1, "WITHSCORES")
    # An id is hexadecimal; other members were not written by offsider.
    return [(group.decode(), score) for group, score in scores(reply) if _ID.fullmatch(group)]


def of_class(redis: Redis, wanted: Iterable[tuple[str, float]], name: str) -> list[tuple[str, float]]:
    """Return the group ids of a job class."""
    listed = [*wanted]
    names = redis.pipeline([("HGET", redis.keys.error(group), "class") for group, _ in listed]) if listed else []
    return [one for one, stored in zip(listed, names, strict=True) if stored is not None and text(stored) == name]


def by_jobs(redis: Redis, wanted: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Sort group ids by the number of their jobs, then by that of their failed runs, highest first."""
    return _sorted(redis, wanted, "jobs", "attempts")


def by_age(redis: Redis, wanted: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Sort group ids by the time of their first error, latest first: an order that further errors do not change."""
    return _sorted(redis, wanted, "first_at")


def _sorted(redis: Redis, wanted: Iterable[tuple[str, float]], *names: str) -> list[tuple[str, float]]:
    listed = [*wanted]
    replies = redis.pipeline([("HMGET", redis.keys.error(group), *names) for group, _ in listed]) if listed else []
    ranked = [
        ([number_field(text(each or b"")) for each in fields], one) for fields, one in zip(replies, listed, strict=True)
    ]
    return [one for _, one in sorted(ranked, key=itemgetter(0), reverse=True)]


def read(redis: Redis, wanted: Sequence[tuple[str, float]]) -> list[ErrorGroup]:
    """Read the groups of these ids; a group that was deleted since is omitted."""
    keys = redis.keys
    reads = [(("HGETALL", keys.error(group)), ("PFCOUNT", keys.error_users(group))) for group, _ in wanted]
    replies = redis.pipeline([command for pair in reads for command in pair], raise_errors=False) if reads else []
    found: list[ErrorGroup] = []
    for (group, last_at), reply, user_count in zip(wanted, replies[::2], replies[1::2], strict=True):
        fields = dict(pairs(reply))
        if not fields:
            continue

        def of(name: str, fields: Mapping[bytes, bytes] = fields) -> str:
            return text(fields.get(name.encode(), b""))

        top = {name: _top(fields, name, MAX_VALUES) for name in FACETS}
        found.append(
            ErrorGroup(
                id=group,
                name=of("class"),
                error_class=of("error_class"),
                frame=Frame(of("file"), of("function"), count(of("line"))),
                message=of("message"),
                attempts=count(of("attempts")),
                jobs=count(of("jobs")),
                deaths=count(of("deaths")),
                first_at=number_field(of("first_at")),
                last_at=last_at,
                first_release=of("first_release"),
                last_release=of("last_release"),
                resolved_at=number(of("resolved_at")),
                returned_at=number(of("returned_at")),
                muted_until=number(of("muted_until")),
                queue=of("queue"),
                last_jid=of("jid"),
                user_count=count(user_count),
                releases=top["release"],
                hosts=top["host"],
                callers=top["caller"],
                tenants=top["tenant"],
                users=top["user"],
                messages=top["message"],
                traceback=of("traceback"),
            )
        )
    return found


def minutes(redis: Redis, since: float, until: float, group: str = "") -> list[ErrorMinute]:
    """Return the counts from ``since`` to ``until`` (epoch seconds), of one group or of all, by time."""
    first = since // MINUTE.seconds * MINUTE.seconds
    where = {"group": group} if group else None
    found = [
        ErrorMinute(one.labels.get("group", ""), first + step * MINUTE.seconds, one.labels.get("release", ""), *cells)
        for one in series.read(redis, ERRORS, MINUTE, since, until, where=where)
        for step, cells in enumerate(one.steps)
        if any(cells)
    ]
    return sorted(found, key=lambda minute: minute.at)


def resolve(redis: Redis, group: str, now: float, release: str = "", older: Iterable[str] = ()) -> bool:
    """Note that a group is resolved, until it fails in a release in which it has not failed yet; False without it.

    Args:
        release: the release that resolves it: a failure in it counts even if it has failed in it before.
        older: other releases in which a failure does not count.
    """
    key = redis.keys.error(group)
    fields = dict(pairs(redis.call("HGETALL", key)))
    if not fields:
        return False
    start = b"release:"
    failed = {text(name[len(start) :]) for name in fields if name.startswith(start)}
    known = json.dumps(sorted({*failed, *older} - {release}))
    run_together(redis, ("HSET", key, "resolved_at", repr(now), "resolved_in", known), ("HDEL", key, "returned_at"))
    return True


def reopen(redis: Redis, group: str) -> bool:
    """Undo `resolve` and `mute`; False if the group is neither resolved nor muted."""
    return bool(redis.call("HDEL", redis.keys.error(group), *_RESOLVED, "muted_until"))


def mute(redis: Redis, group: str, until: float) -> bool:
    """Mute a group until a time in epoch seconds; False if it does not exist."""
    key = redis.keys.error(group)
    if not redis.call("EXISTS", key):
        return False
    redis.call("HSET", key, "muted_until", repr(until))
    return True


def delete(redis: Redis, group: str) -> bool:
    """Delete a group; False if it does not exist. Its counts per minute expire."""
    keys = redis.keys
    commands = (("ZREM", keys.errors, group), ("UNLINK", keys.error(group)), ("UNLINK", keys.error_users(group)))
    return bool(run_together(redis, *commands)[0])


def clear(redis: Redis) -> int:
    """Delete all groups; returns how many existed."""
    return sum(delete(redis, group) for group, _ in ids(redis))


def _top(fields: Mapping[bytes, bytes], facet: str, most: int) -> dict[str, int]:
    start = f"{facet}:".encode()
    values: Counter[Any] = Counter(
        {text(field[len(start) :]): count(hits) for field, hits in fields.items() if field.startswith(start)}
    )
    return dict(values.most_common(most))
