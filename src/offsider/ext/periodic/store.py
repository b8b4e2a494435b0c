"""The state of periodic jobs in Redis. The script ``claim`` claims a tick and pushes its job in the same step.

=========================================  ======  ========================================  ==================
key                                        type    written by                                expires
=========================================  ======  ========================================  ==================
``offsider:periodic:ticks``                hash    each script (name -> last handled tick)   never
``offsider:periodic:entries``              hash    add, remove (entries added at run time)   never
``offsider:periodic:paused``               set     pause, resume                             never
``offsider:periodic:history:<name>``       list    claim, run (the last ten)                 400 days
``offsider:periodic:turn:<name>``          string  lease of a process that prepares a job    5 s
``offsider:periodic:registers``            zset    processes (registry -> last seen)         3 minutes
``offsider:periodic:register:<digest>``    string  processes (entries registered in code)    3 minutes
``offsider:periodic:homes``                hash    assign (only with several servers)        never
=========================================  ======  ========================================  ==================

``key_prefix`` is prepended to each key. The keys ``registers`` and ``register`` keep their names from version 0.1.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from importlib.resources import files
from typing import Any, cast

from offsider.client.prepared import Prepared
from offsider.config.installation import Installation
from offsider.config.routing import MAIN
from offsider.core.clock import END_OF_TIME
from offsider.core.errors import ConfigurationError, OffsiderError, RedisRefused
from offsider.ext.periodic.entry import Entry
from offsider.storage import hashes, processes
from offsider.storage.redis import Redis, Wire
from offsider.storage.scripts import Argument, Call, Script

#: Name of the extension, and of its field in the info of a process.
EXTENSION = "periodic"
HISTORY = 10
HISTORY_SECONDS = 400 * 86_400
LEASE_SECONDS = 5.0
REGISTER_SECONDS = 180

_FOLDER = files("offsider.ext.periodic") / "lua"
LOOK = Script("look", _FOLDER)
LEASE = Script("lease", _FOLDER)
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
        self._registers = f"{self._start}registers"

    def _history(self, name: str) -> str:
        return f"{self._start}history:{name}"

    def _lease(self, name: str) -> str:
        return f"{self._start}turn:{name}"

    def _register(self, digest: str) -> str:
        return f"{self._start}register:{digest}"

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
            {_text(name): int(tick) for name, tick in hashes.pairs(ticks)},
            {_text(name): entry for name, entry in hashes.pairs(added)},
            frozenset(map(_text, cast("list[bytes]", paused))),
        )

    def take_lease(self, name: str, holder: str) -> float:
        """Take the lease to prepare the next job of ``name``. Return 0, or the seconds until the current lease ends."""
        left: int = self._redis.run(LEASE, [self._lease(name)], [holder, int(LEASE_SECONDS * 1000)])
        return left / 1000

    def claim(self, name: str, line: HistoryLine, job: Prepared | None = None) -> Claimed:
        """Claim the tick of ``line`` and push its job atomically. If ``job`` is None, only mark the tick as handled.

        Raises:
            RedisRefused: the server rejects the push; nothing is claimed.
            RedisUnavailable: the tick may have been claimed; the next `look` returns the truth.
        """
        result: int = self._redis.run(CLAIM, *self._claim_call(name, line, job))
        return Claimed(result)

    def claim_by_script(self, name: str, line: HistoryLine, storing: Call) -> tuple[Claimed, Any]:
        """Claim a tick and run the script ``storing``, which pushes the job, in one transaction.

        Args:
            storing: script, keys and arguments of the push.

        Returns:
            The result, and the reply of the script if the tick was claimed.
        """
        with self._redis.wire() as wire:
            while True:
                claimed = self._watch(wire, name, line)
                if claimed is not Claimed.DONE:
                    wire.exchange([("UNWATCH",)])
                    return claimed, None
                script, keys, arguments = storing
                claim = self._claim_call(name, line, None)
                commands = [script.by_text(keys, arguments), CLAIM.by_text(*claim)]
                replies = wire.exchange([("MULTI",), *commands, ("EXEC",)])
                done = replies[-1]
                if isinstance(done, OffsiderError):
                    raise next(reply for reply in replies if isinstance(reply, OffsiderError))
                if done is not None:  # None: another process claimed a tick, of this or another job; try again
                    return claimed, _stored_reply(done[0])

    def _watch(self, wire: Wire, name: str, line: HistoryLine) -> Claimed:
        """Check whether the tick can be claimed, and watch the keys so that a change aborts the transaction."""
        reads = [("TIME",), ("HGET", self._ticks, name), ("SISMEMBER", self._paused, name)]
        replies = wire.exchange([("WATCH", self._ticks, self._paused), *reads])
        for reply in replies:
            if isinstance(reply, OffsiderError):
                wire.disconnect()  # a WATCH left on the connection would abort later transactions
                raise reply
        _, moment, last, paused = replies
        if int(moment[0]) < line.tick:
            return Claimed.EARLY
        if paused:
            return Claimed.PAUSED
        return Claimed.GONE if (hashes.whole(last) or 0) >= line.tick else Claimed.DONE

    def _claim_call(self, name: str, line: HistoryLine, job: Prepared | None) -> tuple[list[str], list[Argument]]:
        keys, queue = self._redis.keys, "" if job is None else job.queue
        names = [self._ticks, self._paused, self._history(name), self._lease(name), keys.queues, keys.queue(queue)]
        raw = b"" if job is None else job.raw
        return names, [name, int(line.tick), queue, raw, _stored(line), HISTORY, HISTORY_SECONDS]

    # ---------------------------------------------------------------------------- manual changes
    def pause(self, name: str) -> bool:
        """Pause a job. Return False if it was paused already."""
        return bool(self._redis.call("SADD", self._paused, name))

    def resume(self, name: str) -> bool:
        """Resume a job, starting with its next tick. Return False if it was not paused."""
        return bool(self._redis.run(RESUME, [self._ticks, self._paused], [name]))

    def add(self, entry: Entry) -> bool:
        """Add or change an entry. Return True if it is new."""
        return bool(self._redis.run(ADD, [self._ticks, self._entries], [entry.name, entry.as_json()]))

    def remove(self, name: str) -> bool:
        """Remove an entry that was added at run time, with its history. Return False if it does not exist."""
        rest = [("HDEL", self._ticks, name), ("SREM", self._paused, name), ("DEL", self._history(name))]
        *_, replies = self._redis.pipeline([("MULTI",), ("HDEL", self._entries, name), *rest, ("EXEC",)])
        return bool(replies[0])

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
        key, stored = self._register(digest), json.dumps({"since": since, "entries": registered})
        self._redis.pipeline(
            [
                ("SET", key, stored, "EX", REGISTER_SECONDS),
                ("ZADD", self._registers, now, digest),
                ("ZREMRANGEBYSCORE", self._registers, "-inf", now - REGISTER_SECONDS),
                ("EXPIRE", self._registers, REGISTER_SECONDS),
            ]
        )

    def live(self) -> frozenset[str]:
        """Return the digests that live processes report in their info; empty for one that registers no entries."""
        infos = processes.infos(self._redis, processes.identities(self._redis)).values()
        reports = (hashes.json_object(info).get(EXTENSION) for info in infos)
        return frozenset(digest for digest in reports if isinstance(digest, str))

    def published(self, live: Collection[str] | None = None) -> dict[str, list[Entry]]:
        """Return the entries that processes registered in the last minutes: name -> its versions, newest first.

        Args:
            live: only registrations with these digests.
        """
        members = [_text(digest) for digest in self._redis.call("ZRANGE", self._registers, 0, -1)]
        digests = [digest for digest in members if live is None or digest in live]
        found: list[Any] = self._redis.call("MGET", *map(self._register, digests)) if digests else []
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
        return list(_entries((_text(name), raw) for name, raw in stored))

    def paused(self) -> frozenset[str]:
        """Return the names of paused jobs."""
        return frozenset(map(_text, self._redis.call("SMEMBERS", self._paused)))


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


def _stored(line: HistoryLine) -> str:
    return json.dumps(asdict(line), separators=(",", ":"))


def _stored_reply(reply: Any) -> Any:
    """Return the reply of a script in a transaction, or raise its error: the tick is claimed, so its job is lost."""
    if isinstance(reply, Exception):
        raise reply if isinstance(reply, OffsiderError) else RedisRefused(str(reply))
    return reply


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


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


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
        self._key = f"{redis.keys.prefix}offsider:periodic:homes"

    @classmethod
    def of(cls, installation: Installation) -> Servers | None:
        """Return the assignment for a configuration; None if there is only one server."""
        several = len(installation.config.servers) > 1
        return cls(installation.for_server(MAIN).redis, installation.name) if several else None

    def is_assigned(self, name: str, tick: int) -> bool:
        """Return whether this server handles the tick. The first server to ask gets it."""
        return bool(self._redis.run(ASSIGN, [self._key], [name, tick, self._server]))

    def handled_by_others(self) -> dict[str, int]:
        """Return the latest tick, in epoch seconds, of each job whose last tick another server handled."""
        stored: list[bytes] = self._redis.call("HGETALL", self._key)
        found: dict[str, int] = {}
        for name, raw in zip(stored[::2], stored[1::2], strict=True):
            tick, _, server = raw.decode("utf-8", "replace").partition(" ")
            if server != self._server and tick.isdigit():
                found[name.decode("utf-8", "replace")] = int(tick)
        return found

    def forget(self, name: str) -> None:
        """Delete the record of a removed job."""
        self._redis.call("HDEL", self._key, name)
