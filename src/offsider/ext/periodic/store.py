"""The state of periodic jobs in Redis. The script ``claim`` claims a tick and pushes its job in the same step.

=========================================  ======  ========================================  ==================
key                                        type    written by                                expires
=========================================  ======  ========================================  ==================
``offsider:periodic:ticks``                hash    each script (name -> last handled tick)   never
``offsider:periodic:entries``              hash    add, remove (entries added at run time)   never
``offsider:periodic:paused``               hash    pause, resume (name -> who, when, why)    never
``offsider:periodic:seen``                 hash    processes (name -> when, and its entry)   7 days each
``offsider:periodic:orphaned``             hash    processes (name -> when it was reported)  with ``seen``
``offsider:periodic:history:<name>``       list    claim, run (the last ten)                 400 days
``offsider:periodic:lease:<name>``         string  the process that prepares a job           5 s
``offsider:periodic:programs``             zset    processes (digest -> last seen)           3 minutes
``offsider:periodic:program:<digest>``     string  processes (entries registered in code)    3 minutes
``offsider:periodic:servers``              hash    assign (only with several servers)        never
=========================================  ======  ========================================  ==================

``key_prefix`` is prepended to each key.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar, cast

from offsider.config.installation import Installation
from offsider.config.routing import MAIN
from offsider.core.clock import END_OF_TIME
from offsider.core.errors import ConfigurationError, RedisFailure
from offsider.ext.periodic.entry import EXTENSION, Entry
from offsider.storage import clocks, events, hashes, leases, processes
from offsider.storage.hashes import text
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Call, Command, Script

logger = logging.getLogger("offsider")

T = TypeVar("T")

HISTORY = 10
HISTORY_SECONDS = 400 * 86_400
LEASE_SECONDS = 5.0
PROGRAM_SECONDS = 180
#: An entry that no live process has is shown for this time.
SEEN_SECONDS = 7 * 86_400
#: How long ``main`` is not asked after a failure: it may hang, and other ticks are due.
MAIN_AWAY_SECONDS = 30.0

_FOLDER = files("offsider.ext.periodic") / "lua"
LOOK = Script("look", _FOLDER)
CLAIM = Script("claim", _FOLDER)
RESUME = Script("resume", _FOLDER)
ADD = Script("add", _FOLDER)
ASSIGN = Script("assign", _FOLDER)


class Claimed(IntEnum):
    """The result of claiming a tick."""

    DONE = 1
    GONE = 0
    EARLY = -1
    PAUSED = -2


@dataclass(frozen=True)
class HistoryLine:
    """One line of a job's history.

    Attributes:
        how: ``"tick"``; ``"run"``, manually; ``"skipped"``, older than ``grace_seconds``; or ``"stopped"``: client
            middleware rejected the job.
        tick: epoch seconds; for ``"skipped"``, the last of the skipped ticks.
        at: epoch seconds, when the line was written.
        jid: ID of the pushed job, or empty.
        count: number of skipped ticks.
        by: process or user that wrote the line.
    """

    how: str
    tick: float
    at: float
    jid: str = ""
    count: int = 0
    by: str = ""


@dataclass(frozen=True)
class Pause:
    """A pause of a periodic job.

    Attributes:
        at: epoch seconds.
        by: who paused it; empty if unknown.
        reason: why.
    """

    at: float
    by: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Seen:
    """An entry as a live process last registered it.

    Attributes:
        at: epoch seconds.
        entry: the entry.
    """

    at: float
    entry: Entry


@dataclass(frozen=True)
class Looked:
    """A snapshot of the state.

    Attributes:
        at: the server's time, epoch seconds.
        seen_at: monotonic seconds of the snapshot.
        ticks: name -> last handled tick, epoch seconds.
        added: name -> stored entry that was added at run time.
        paused: names of paused jobs.
    """

    at: float
    seen_at: float
    ticks: Mapping[str, int]
    added: Mapping[str, bytes]
    paused: frozenset[str]

    def now(self) -> float:
        """Return the server's current time, epoch seconds."""
        return self.at + time.monotonic() - self.seen_at


class PeriodicStore:
    """The periodic jobs of one server.

    Args:
        redis: the pool.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._start = f"{redis.keys.prefix}offsider:periodic:"
        self._ticks = f"{self._start}ticks"
        self._entries = f"{self._start}entries"
        self._paused = f"{self._start}paused"
        self._programs = f"{self._start}programs"
        self._seen = f"{self._start}seen"
        self._orphaned = f"{self._start}orphaned"

    def _history(self, name: str) -> str:
        return f"{self._start}history:{name}"

    def _lease(self, name: str) -> str:
        return f"{self._start}lease:{name}"

    def _program(self, digest: str) -> str:
        return f"{self._start}program:{digest}"

    # ------------------------------------------------------------------------------------- ticks
    def look(self, remembered: Mapping[str, int]) -> Looked:
        """Read the state, and store the last tick of each job that has none.

        Args:
            remembered: job name -> last tick that the caller handled, or 0. It is used for jobs that have no tick on
                the server.
        """
        arguments = [part for pair in remembered.items() for part in pair]
        started = time.monotonic()
        seconds, microseconds, ticks, added, paused = self._redis.run(
            LOOK, [self._ticks, self._entries, self._paused], arguments
        )
        seen_at = (started + time.monotonic()) / 2
        return Looked(
            int(seconds) + int(microseconds) / 1_000_000,
            seen_at,
            {text(name): int(tick) for name, tick in hashes.pairs(ticks)},
            {text(name): entry for name, entry in hashes.pairs(added)},
            frozenset(map(text, cast("list[bytes]", paused))),
        )

    def take_lease(self, name: str, holder: str) -> float:
        """Take the lease to prepare the next job of ``name``. Return 0, or the seconds until the current lease ends.

        It only saves work, because client middleware may take locks; the claim decides.
        """
        return leases.acquire(self._redis, self._lease(name), holder, LEASE_SECONDS)

    def claim(self, name: str, line: HistoryLine, push: Call | None = None) -> tuple[Claimed, Any]:
        """Claim the tick of ``line`` and push its job atomically. Without ``push``, only mark the tick as handled.

        Args:
            push: the script that pushes the job.

        Returns:
            The result, and the reply of that script if the tick was claimed.

        Raises:
            RedisRefused: the server rejects the push; nothing is claimed.
            RedisUnavailable: the tick may have been claimed; the next `look` returns the truth.
        """
        script, keys, arguments = push or (None, (), ())
        names = [self._ticks, self._paused, self._history(name), self._lease(name), *keys]
        own: list[Argument] = [name, int(line.tick), _stored(line), HISTORY, HISTORY_SECONDS]
        result, reply = self._redis.run(_claiming(script), names, [*own, *arguments])
        return Claimed(result), reply

    # ---------------------------------------------------------------------------- manual changes
    def pause(self, name: str, *, by: str = "", reason: str = "") -> bool:
        """Pause a job. Return False if it was paused already."""
        pause = Pause(clocks.look(self._redis)[0], by, reason)
        if not self._redis.call("HSETNX", self._paused, name, json.dumps(asdict(pause))):
            return False
        events.note(self._redis, events.PERIODIC_PAUSED, name, by, reason=reason)
        return True

    def resume(self, name: str, *, by: str = "") -> bool:
        """Resume a job, starting with its next tick. Return False if it was not paused."""
        if not self._redis.run(RESUME, [self._ticks, self._paused], [name]):
            return False
        events.note(self._redis, events.PERIODIC_RESUMED, name, by)
        return True

    def add(self, entry: Entry) -> bool:
        """Add or change an entry. Return True if it is new."""
        return bool(self._redis.run(ADD, [self._ticks, self._entries], [entry.name, entry.as_json()]))

    def remove(self, name: str) -> bool:
        """Remove an entry that was added at run time, with its history. Return False if it does not exist."""
        return self._remove(self._entries, name)

    def forget(self, name: str) -> bool:
        """Remove an entry that no live process registers any more. Return False if it does not exist."""
        return self._remove(self._seen, name)

    def _remove(self, key: str, name: str) -> bool:
        if not self._redis.call("HDEL", key, name):
            return False
        state = (self._ticks, self._paused, self._seen, self._orphaned)
        self._redis.pipeline([("DEL", self._history(name)), *(("HDEL", each, name) for each in state)])
        return True

    def note(self, name: str, line: HistoryLine) -> None:
        """Add a line to the history."""
        key = self._history(name)
        self._redis.pipeline(
            [("LPUSH", key, _stored(line)), ("LTRIM", key, 0, HISTORY - 1), ("EXPIRE", key, HISTORY_SECONDS)]
        )

    def replace_line(self, name: str, old: HistoryLine, new: HistoryLine) -> None:
        """Replace ``old`` with ``new`` in the history."""
        self._redis.call("LREM", self._history(name), 1, _stored(old))
        self.note(name, new)

    def history(self, name: str) -> list[HistoryLine]:
        """Return the last ten lines, latest first."""
        return list(_lines(self._redis.call("LRANGE", self._history(name), 0, HISTORY - 1)))

    def last_lines(self, names: Sequence[str]) -> dict[str, HistoryLine]:
        """Return the latest line of each name that has one."""
        commands = [("LINDEX", self._history(name), 0) for name in names]
        replies = self._redis.pipeline(commands) if commands else []
        found = ((name, next(_lines([raw]), None)) for name, raw in zip(names, replies, strict=True) if raw)
        return {name: line for name, line in found if line is not None}

    # -------------------------------------------------------------------------------- registries
    def publish(self, entries: Sequence[Entry], since: float, now: float) -> None:
        """Publish the entries registered in this process for three minutes.

        Args:
            since: when the process started, epoch seconds. Where processes differ, readers use the newest one's entry.
            now: the server's time.
        """
        digest, registered = digest_of(entries), {entry.name: entry.as_json() for entry in entries}
        key, stored = self._program(digest), json.dumps({"since": since, "entries": registered})
        self._redis.pipeline(
            [
                ("SET", key, stored, "EX", PROGRAM_SECONDS),
                ("ZADD", self._programs, now, digest),
                ("ZREMRANGEBYSCORE", self._programs, "-inf", now - PROGRAM_SECONDS),
                ("EXPIRE", self._programs, PROGRAM_SECONDS),
                *_seen(self._seen, self._orphaned, registered, now),
            ]
        )

    def report_orphans(self, now: float) -> None:
        """Report each entry that no live process has registered lately, once; forget it after a week."""
        for name, seen in self.seen().items():
            if seen.at < now - SEEN_SECONDS:
                self._redis.pipeline([("HDEL", self._seen, name), ("HDEL", self._orphaned, name)])
            elif seen.at < now - PROGRAM_SECONDS and self._redis.call("HSETNX", self._orphaned, name, repr(now)):
                events.note(self._redis, events.PERIODIC_ORPHANED, name, seen=seen.at)

    def seen(self) -> dict[str, Seen]:
        """Return the entries that processes have registered within a week, with the last time."""
        found: dict[str, Seen] = {}
        for name, stored in hashes.texts(self._redis.call("HGETALL", self._seen)):
            at, _, entry = stored.partition(" ")
            with suppress(ConfigurationError):  # written by another version
                found[name] = Seen(hashes.number(at) or 0.0, Entry.from_json(name, entry))
        return found

    def missed(self, name: str, count: int) -> None:
        """Report that ticks were skipped."""
        events.note(self._redis, events.PERIODIC_MISSED, name, count=count)

    def live(self) -> frozenset[str]:
        """Return the digests that live processes report in their info; empty for one that registers no entries."""
        found = processes.hashes(self._redis, processes.identities(self._redis)).values()
        reports = (hashes.json_object(fields.get("info", b"")).get(EXTENSION) for fields in found)
        return frozenset(digest for digest in reports if isinstance(digest, str))

    def published(self, live: Collection[str] | None = None) -> dict[str, list[Entry]]:
        """Return the entries that processes registered in the last minutes: name -> its versions, newest first.

        Args:
            live: only registrations with these digests.
        """
        members = [text(digest) for digest in self._redis.call("ZRANGE", self._programs, 0, -1)]
        digests = [digest for digest in members if live is None or digest in live]
        found: list[Any] = self._redis.call("MGET", *map(self._program, digests)) if digests else []
        versions: dict[str, list[Entry]] = {}
        for registry in sorted((hashes.json_object(raw) for raw in found if raw), key=_since, reverse=True):
            entries = registry.get("entries")
            for entry in _entries(cast("dict[str, Any]", entries).items() if isinstance(entries, dict) else ()):
                known = versions.setdefault(entry.name, [])
                if entry not in known:
                    known.append(entry)
        return versions

    def added(self) -> list[Entry]:
        """Return the entries added at run time."""
        stored = hashes.pairs(self._redis.call("HGETALL", self._entries))
        return list(_entries((text(name), raw) for name, raw in stored))

    def paused(self) -> dict[str, Pause]:
        """Return the pause of each paused job."""
        stored = hashes.pairs(self._redis.call("HGETALL", self._paused))
        return {text(name): _pause(hashes.json_object(raw)) for name, raw in stored}


@cache
def _claiming(push: Script | None) -> Script:
    """Return ``claim.lua`` with the script that pushes the job."""
    flags, _, claim = CLAIM.source.partition("\n")
    pushing = "" if push is None else push.source.partition("\n")[2]
    return Script(CLAIM.name, source=f"{flags}\nlocal function push(KEYS, ARGV)\n{pushing}\nend\n{claim}")


def digest_of(entries: Iterable[Entry]) -> str:
    """Return the digest of a registration, by which processes report it in their info."""
    registered = {entry.name: entry.as_json() for entry in entries}
    return hashlib.sha256(json.dumps(registered, sort_keys=True).encode()).hexdigest()[:16]


def _entries(stored: Any) -> Iterator[Entry]:
    for name, raw in stored:
        try:
            yield Entry.from_json(name, raw)
        except ConfigurationError:
            continue  # written by another version; its own processes report the error


def _seen(seen: str, orphaned: str, registered: Mapping[str, str], now: float) -> Iterator[Command]:
    """Yield the commands that record that a live process has these entries."""
    if registered:
        yield ("HSET", seen, *(part for name, entry in registered.items() for part in (name, f"{now!r} {entry}")))
        yield ("HDEL", orphaned, *registered)


def _pause(fields: Mapping[str, Any]) -> Pause:
    by, reason = (hashes.text_field(fields.get(name)) for name in ("by", "reason"))
    return Pause(hashes.number_field(fields.get("at")), by, reason)


def _stored(line: HistoryLine) -> str:
    return json.dumps(asdict(line), separators=(",", ":"))


def _lines(raws: Sequence[bytes]) -> Iterator[HistoryLine]:
    for raw in raws:
        try:
            line: Any = HistoryLine(**hashes.json_object(raw))
        except TypeError:
            continue
        numbers = (line.tick, line.at, line.count)
        if all(isinstance(number, int | float) and abs(number) < END_OF_TIME for number in numbers):
            yield line


def _since(registry: Mapping[str, Any]) -> float:
    since: object = registry.get("since")
    return since if isinstance(since, int | float) else 0.0


def claimer_id() -> str:
    """Return a unique ID for a process that claims ticks, ``host:pid:nonce``."""
    return f"{os.environ.get('DYNO') or socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


class Servers:
    """Assigns each tick to one server. The record is on ``main``.

    A job goes to one server, and its ticks are claimed there. While a deploy moves it to another server, old processes
    claim its ticks on one server and new processes on the other. With several servers, a worker therefore checks
    ``main`` before it claims a tick. The record also shows workers of the new server which ticks were already handled.

    Args:
        redis: the pool of ``main``.
        server: name of the worker's server.
    """

    def __init__(self, redis: Redis, server: str) -> None:
        self._redis = redis
        self._server = server
        self._key = f"{redis.keys.prefix}offsider:periodic:servers"
        #: The last ticks that other servers handled; None: not read yet.
        self._others: dict[str, int] | None = None
        self._ask_at = 0.0

    @classmethod
    def of(cls, installation: Installation) -> Servers | None:
        """Return the assignment for a configuration; None if there is only one server."""
        several = len(installation.config.servers) > 1
        return cls(installation.for_server(MAIN).redis, installation.name) if several else None

    def is_assigned(self, name: str, tick: int) -> bool:
        """Return whether this server handles the tick. The first server to ask gets it.

        If ``main`` is down, this server does: waiting could lose the tick.
        """
        assigned = self._asked(lambda: bool(self._redis.run(ASSIGN, [self._key], [name, tick, self._server])), True)
        if not assigned:
            self._others = {**(self._others or {}), name: tick}
        return assigned

    def handled_by_others(self) -> Mapping[str, int]:
        """Return the latest tick, in epoch seconds, of each job whose last tick another server handled."""
        if self._others is None:
            self._others = self._asked(self._read, None)
        return self._others or {}

    def forget(self, name: str) -> None:
        """Delete the record of a removed job."""
        self._redis.call("HDEL", self._key, name)

    def _read(self) -> dict[str, int] | None:
        found: dict[str, int] = {}
        for name, stored in hashes.texts(self._redis.call("HGETALL", self._key)):
            tick, _, server = stored.partition(" ")
            if server != self._server and tick.isdigit():
                found[name] = int(tick)
        return found

    def _asked(self, ask: Callable[[], T], otherwise: T) -> T:
        if time.monotonic() < self._ask_at:
            return otherwise
        try:
            return ask()
        except RedisFailure as error:
            self._ask_at = time.monotonic() + MAIN_AWAY_SECONDS
            logger.warning(
                "periodic jobs: cannot check which server handles a tick, next attempt in %g s; until then a tick may "
                "run twice if a deploy moves its job to another server: %s",
                MAIN_AWAY_SECONDS,
                error,
            )
            return otherwise
