"""Controls: run, limit, hold, defer or drop a class of jobs on all workers, and the jobs that are held."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TypedDict, Unpack

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.clock import as_seconds
from offsider.core.controls import (
    QUEUE,
    Control,
    InvalidControl as InvalidControl,  # noqa: PLC0414  # a public name of this module
    check,
    class_of,
    is_class,
)
from offsider.core.errors import RedisFailure
from offsider.inspector.all_servers import query_all, split
from offsider.inspector.process import ProcessSet
from offsider.storage import control_table, processes, slots
from offsider.storage.redis import Redis
from offsider.storage.slots import ANY_RATE, Holder, Rate

DEFER_SECONDS = 300.0
#: With a shorter delay a job would return to its queue all the time.
MIN_DEFER_SECONDS = 1.0


class ChangedInPart(RedisFailure):
    """A control was changed on some servers and not on others. The message names them.

    Attributes:
        done: names of the servers with the change.
        failed: the error of each other server, by its name.
    """

    def __init__(self, subject: str, done: Sequence[str], failed: Mapping[str, RedisFailure]) -> None:
        away = ", ".join(failed)
        super().__init__(
            f"the control of {subject} was changed on {', '.join(done)}, but not on {away}: repeat this when {away} is "
            f"reachable again ({next(iter(failed.values()))})"
        )
        self.done = tuple(done)
        self.failed = dict(failed)


@dataclass(frozen=True, slots=True)
class ControlInForce(Control):
    """The control of one subject, as all servers have it.

    Attributes:
        acted: number of jobs that it deferred or dropped.
        missing_on: servers that do not have it, because they were unreachable when it was set, or are new.
        differs_on: servers that have another control for this subject.
    """

    acted: int = 0
    missing_on: tuple[str, ...] = ()
    differs_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ControlsSeen:
    """The controls of all servers.

    Attributes:
        controls: one per subject, sorted; if servers differ, the control of the first server that has one.
        away: unreachable servers with the error.
    """

    controls: Sequence[ControlInForce]
    away: Mapping[str, RedisFailure]


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A group with a limit in code, with slots in use or with held jobs; with its keys, if it is a class.

    Attributes:
        name: the subject.
        limit: maximum concurrent runs in the workers' code; None without one.
        rate: maximum starts in a time in the workers' code; no starts without one.
        in_use: slots in use, including slots reserved for resumed jobs.
        held: number of held jobs.
        keys: number of keys with slots in use or held jobs.
        server: name of the server; each server counts its own slots.
    """

    name: str
    limit: int | None = None
    rate: Rate = ANY_RATE
    in_use: int = 0
    held: int = 0
    keys: int = 0
    server: str = "main"


class ControlOrigin(TypedDict, total=False):
    """Who sets a control, and for how long.

    Attributes:
        lasting: seconds or a timedelta until the control ends; default: never.
        by: who sets it.
        reason: why.
    """

    lasting: float | timedelta | None
    by: str
    reason: str


class Controls:
    """The controls of all servers of a configuration. Iterating yields them sorted by subject, as `look` does.

    ::

        controls = Controls()
        controls.hold("shop.sync_stock", reason="the partner is down", by="ann")
        controls.limit("urgency=low&tags=export", 3, lasting=timedelta(hours=2))
        controls.resume("shop.sync_stock")

    Workers apply a change within two seconds. Running jobs continue. A subject has one control: a new one replaces it.
    The changes accept the arguments of `ControlOrigin`. They raise InvalidControl if a value is invalid, ChangedInPart
    if the change was made on some servers only, and RedisFailure if it was made on no server. Groups and held jobs are
    those of one server.

    Args:
        config: selects the servers; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._server = Installation.of(config)

    # ------------------------------------------------------------------------------------ changes

    def run(self, subject: str, **origin: Unpack[ControlOrigin]) -> None:
        """Run jobs without a limit, overriding the code and less specific controls."""
        self._put(Control(subject, "run"), **origin)

    def limit(self, subject: str, limit: int, **origin: Unpack[ControlOrigin]) -> None:
        """Run at most ``limit`` jobs at the same time; of a class with a key, of each key. Overrides the code."""
        self._put(Control(subject, "limit", limit=limit), **origin)

    def hold(self, subject: str, **origin: Unpack[ControlOrigin]) -> None:
        """Start no more jobs: claimed ones wait, first in first out, until the control ends. A queue is paused."""
        self._put(Control(subject, "hold"), **origin)

    def defer(self, subject: str, seconds: float | timedelta = DEFER_SECONDS, **origin: Unpack[ControlOrigin]) -> None:
        """Reschedule jobs, repeatedly, instead of running them. This does not count as an attempt.

        Args:
            seconds: delay, as seconds or a timedelta; at least 1 s.
        """
        delay_seconds = as_seconds(seconds, "the delay", at_least=MIN_DEFER_SECONDS, error=InvalidControl)
        self._put(Control(subject, "defer", delay_seconds=delay_seconds), **origin)

    def drop(self, subject: str, *, delete: bool = False, **origin: Unpack[ControlOrigin]) -> None:
        """Move jobs to the quarantine instead of running them.

        Args:
            delete: delete them permanently instead.
        """
        self._put(Control(subject, "drop", keep=not delete), **origin)

    def resume(self, subject: str, *, by: str = "") -> bool:
        """End the control of a subject. Returns False if it has none.

        Args:
            by: who ends it.
        """
        return any(self._change(subject, lambda redis: control_table.clear(redis, subject, by=by)))

    def _put(
        self, control: Control, *, lasting: float | timedelta | None = None, by: str = "", reason: str = ""
    ) -> None:
        control = replace(control, by=by, reason=reason)
        check(control)
        life = None
        if lasting is not None:
            life = as_seconds(lasting, "lasting of a control", at_least=0.001, error=InvalidControl)
        self._change(control.subject, lambda redis: bool(control_table.put(redis, control, seconds=life)))

    def _change(self, subject: str, act: Callable[[Redis], bool]) -> list[bool]:
        done, failed = split(query_all(self._server, lambda there: act(there.redis)))
        if failed:
            raise ChangedInPart(subject, list(done), failed)
        return list(done.values())

    # ------------------------------------------------------------------------------------ reading

    def look(self) -> ControlsSeen:
        """Read the controls of all reachable servers. Raises RedisFailure if all are unreachable."""
        tables, away = split(query_all(self._server, _table))
        subjects = sorted({subject for table in tables.values() for subject in table})
        return ControlsSeen([_merged(subject, tables) for subject in subjects], away)

    def find(self, subject: str) -> ControlInForce | None:
        """Return the control of a subject; None if it has none."""
        return next((control for control in self if control.subject == subject), None)

    def __iter__(self) -> Iterator[ControlInForce]:
        return iter(self.look().controls)

    def of_server(self) -> list[ControlInForce]:
        """Return the controls of this server, without waiting for others."""
        table = _table(self._server)
        return [table[subject] for subject in sorted(table)]

    def groups(self, text: str = "") -> list[GroupSeen]:
        """Return the classes and other groups of this server that have limits in code, slots in use or held jobs.

        Args:
            text: only those whose name contains it, or the name of one of their keys, such as ``transfer[42]``.
        """
        redis = self._server.redis
        declared = slots.declared(redis, self._server.config.clock.now(), slots.SHOWN_SECONDS)
        found = slots.groups(redis)
        names = sorted({class_of(name) for name in (*declared, *found) if text in name})
        counts = slots.counts(redis, [name for name in found if class_of(name) in names])
        return [self._group(name, counts, *declared.get(name, (0, ANY_RATE))) for name in names]

    def _group(self, name: str, counts: Mapping[str, slots.GroupCounts], limit: int, rate: Rate) -> GroupSeen:
        own = {group: count for group, count in counts.items() if class_of(group) == name}
        return GroupSeen(
            name,
            max(0, limit) if limit else None,
            rate,
            sum(count.in_use + count.kept for count in own.values()),
            sum(count.held for count in own.values()),
            sum(group != name and any(count) for group, count in own.items()),
            self._server.name,
        )

    def keys(self, name: str, text: str = "") -> list[GroupSeen]:
        """Return each key of a class that has slots in use or held jobs, the one with most held jobs first.

        Args:
            text: only keys that contain it.
        """
        names = [group for group in self._groups_of(name) if group != name and text in group[len(name) :]]
        counts = slots.counts(self._server.redis, names)
        found = [GroupSeen(group, None, ANY_RATE, one.in_use + one.kept, one.held) for group, one in counts.items()]
        return sorted(found, key=lambda one: (-one.held, one.name))

    def holders(self, subject: str, most: int = 100) -> list[Holder]:
        """Return the runs of a subject that have slots, oldest first."""
        found = slots.holders(self._server.redis, *self._groups_of(subject), most=most)
        return sorted(found, key=lambda holder: holder.since)[:most]

    def count_held(self, subject: str) -> int:
        """Return the number of held jobs of a subject, of a class with all its keys."""
        return sum(counts.held for counts in slots.counts(self._server.redis, self._groups_of(subject)).values())

    def held_place(self, subject: str) -> str:
        """Return the place of the held jobs of a subject, as in `Found.where`; of a class without its keys."""
        return f"held:{self._server.redis.keys.held(subject)}"

    def _groups_of(self, subject: str) -> list[str]:
        """Return the groups of a class and its keys, or the one group of another subject."""
        if not is_class(subject) or class_of(subject) != subject:
            return [subject]
        others = slots.groups(self._server.redis)
        return [subject, *(group for group in others if class_of(group) == subject != group)]

    def known_jobs(self) -> frozenset[str]:
        """Return the job names of live workers on all servers; none if a server is unreachable.

        Ruby reports no names.
        """
        answers = query_all(self._server, _known_there)
        if any(isinstance(names, RedisFailure) for names in answers.values()):
            return frozenset()
        return frozenset(name for names in split(answers)[0].values() for name in names)

    def unknown(self, subject: str) -> frozenset[str]:
        """Return the job names of live workers, if none of them declares the class of a subject; else none."""
        known = self.known_jobs() if is_class(subject) and not subject.startswith(QUEUE) else frozenset[str]()
        return frozenset() if class_of(subject) in known else known


def _known_there(server: Installation) -> set[str]:
    identities = [process.identity for process in ProcessSet(server)]
    known = processes.published_jobs(server.redis, identities)
    return {name for names in known.values() for name in names}


def _table(server: Installation) -> dict[str, ControlInForce]:
    redis = server.redis
    on = control_table.read(redis).on
    acted = control_table.counts(redis) if on else {}
    return {subject: ControlInForce(**asdict(control), acted=acted.get(subject, 0)) for subject, control in on.items()}


def _merged(subject: str, tables: Mapping[str, Mapping[str, ControlInForce]]) -> ControlInForce:
    """Merge the controls of all servers for a subject."""
    having = {server: table[subject] for server, table in tables.items() if subject in table}
    first = next(iter(having.values()))
    return replace(
        first,
        acted=sum(control.acted for control in having.values()),
        missing_on=tuple(server for server in tables if server not in having),
        differs_on=tuple(server for server, other in having.items() if _content(other) != _content(first)),
    )


def _content(control: Control) -> tuple[object, ...]:
    """Return the fields to compare between servers, without times, since their clocks may differ."""
    lasting = None if control.until is None else round(control.until - control.since)
    fields = (control.action, control.limit, control.delay_seconds, control.keep)
    return *fields, lasting, control.by, control.reason
