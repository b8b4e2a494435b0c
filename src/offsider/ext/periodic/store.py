"""What periodic jobs keep in Redis. The script ``claim`` claims a tick and pushes its job in the same step.

=========================================  ======  ========================================  ==================
key                                        type    written by                                expires
=========================================  ======  ========================================  ==================
``offsider:periodic:ticks``                hash    claim, look (name -> dealt with up to)    never
``offsider:periodic:entries``              hash    add, remove (those added at run time)     never
``offsider:periodic:paused``               set     pause, resume                             never
``offsider:periodic:revision``             string  each change by hand; processes watch it   never
``offsider:periodic:history:<name>``       list    claim, run (the last ten)                 400 days
``offsider:periodic:turn:<name>``          string  who prepares the job of a tick            5 s
``offsider:periodic:registers``            zset    processes (register -> last seen)         never (3 minutes)
``offsider:periodic:register:<digest>``    string  processes (what is registered in code)    3 minutes
=========================================  ======  ========================================  ==================

``key_prefix`` stands before every one of them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from importlib.resources import files
from typing import Any, cast

from offsider.client.prepared import Prepared
from offsider.core.errors import ConfigurationError, OffsiderError, RedisRefused
from offsider.ext.periodic.entry import Entry
from offsider.storage import hashes
from offsider.storage.redis import Redis, Wire
from offsider.storage.scripts import Argument, Call, Script

HISTORY = 10
HISTORY_SECONDS = 400 * 86_400
TURN_SECONDS = 5.0
REGISTER_SECONDS = 180

_FOLDER = files("offsider.ext.periodic.lua")
LOOK = Script("look", _FOLDER)
TURN = Script("turn", _FOLDER)
CLAIM = Script("claim", _FOLDER)
RESUME = Script("resume", _FOLDER)
ADD = Script("add", _FOLDER)


class Claimed(IntEnum):
    """What became of the attempt to claim a tick."""

    DONE = 1
    GONE = 0
    EARLY = -1
    PAUSED = -2


@dataclass(frozen=True)
class Line:
    """One line of a job's history.

    Attributes:
        how: ``"tick"``; ``"run"``, by hand; ``"skipped"``, older than ``grace_seconds`` when it was seen; or
            ``"stopped"``, by client middleware.
        tick: epoch seconds; the last one of those that were skipped.
        at: epoch seconds, when it was noted.
        jid: of the job; empty when none was pushed.
        count: how many ticks were skipped.
        by: which process or person.
    """

    how: str
    tick: float
    at: float
    jid: str = ""
    count: int = 0
    by: str = ""


@dataclass(frozen=True)
class Looked:
    """What a look has found.

    Attributes:
        at: the server's time, epoch seconds.
        seen_at: monotonic seconds at which that was so.
        ticks: name -> up to when its ticks are dealt with, epoch seconds.
        added: name -> what was added at run time, as it is stored.
        paused: names.
    """

    at: float
    seen_at: float
    ticks: Mapping[str, int]
    added: Mapping[str, bytes]
    paused: frozenset[str]

    def now(self) -> float:
        """The server's time by now, epoch seconds."""
        return self.at + time.monotonic() - self.seen_at


class PeriodicStore:
    """The calls of periodic jobs to one server.

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
        self.revision = f"{self._start}revision"

    def _history(self, name: str) -> str:
        return f"{self._start}history:{name}"

    def _turn(self, name: str) -> str:
        return f"{self._start}turn:{name}"

    def _register(self, digest: str) -> str:
        return f"{self._start}register:{digest}"

    # ------------------------------------------------------------------------------------- ticks
    def look(self, remembered: Mapping[str, int]) -> Looked:
        """What is dealt with, added and paused.

        Args:
            remembered: the names of the jobs that the caller knows, and up to when it remembers their ticks to be
                dealt with; 0 when it does not. It counts where the server knows nothing.
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

    def take_turn(self, name: str, holder: str) -> float:
        """Be the one who prepares the next job of ``name``: 0, or the seconds until somebody else may be done."""
        left: int = self._redis.run(TURN, [self._turn(name)], [holder, int(TURN_SECONDS * 1000)])
        return left / 1000

    def claim(self, name: str, line: Line, job: Prepared | None = None) -> Claimed:
        """Claim the tick of ``line`` and push its job, in one step; without a job the tick is only dealt with.

        Raises:
            RedisRefused: the queue does not take the job; nothing is claimed.
            RedisUnavailable: the next look shows whether it was claimed.
        """
        result: int = self._redis.run(CLAIM, *self._claim_call(name, line, job))
        return Claimed(result)

    def claim_guarded(self, name: str, line: Line, storing: Call) -> tuple[Claimed, Any]:
        """The same for a job that the push guard's script stores: both scripts are one transaction.

        Args:
            storing: the call of that script.

        Returns:
            What became of it, and the script's reply once the tick is claimed.
        """
        with self._redis.wire() as wire:
            while True:
                claimed = self._watch(wire, name, line)
                if claimed is not Claimed.DONE:
                    wire.exchange([("UNWATCH",)])
                    return claimed, None
                script, keys, arguments = storing
                noting = self._claim_call(name, line, None)
                commands = [script.by_text(keys, arguments), CLAIM.by_text(*noting)]
                replies = wire.exchange([("MULTI",), *commands, ("EXEC",)])
                done = replies[-1]
                if isinstance(done, OffsiderError):
                    raise next(reply for reply in replies if isinstance(reply, OffsiderError))
                if done is not None:  # else somebody has claimed a tick meanwhile, of this job or of another
                    return claimed, _stored_reply(done[0])

    def _watch(self, wire: Wire, name: str, line: Line) -> Claimed:
        """Whether the tick may be claimed, as long as nothing changes that was looked at."""
        looks = [("TIME",), ("HGET", self._ticks, name), ("SISMEMBER", self._paused, name)]
        replies = wire.exchange([("WATCH", self._ticks, self._paused), *looks])
        for reply in replies:
            if isinstance(reply, OffsiderError):
                wire.disconnect()  # what is watched would spoil the transactions of others
                raise reply
        _, moment, last, paused = replies
        if int(moment[0]) < line.tick:
            return Claimed.EARLY
        if paused:
            return Claimed.PAUSED
        return Claimed.GONE if last is not None and int(last) >= line.tick else Claimed.DONE

    def _claim_call(self, name: str, line: Line, job: Prepared | None) -> tuple[list[str], list[Argument]]:
        keys, queue = self._redis.keys, "" if job is None else job.queue
        names = [self._ticks, self._paused, self._history(name), self._turn(name), keys.queues, keys.queue(queue)]
        raw = b"" if job is None else job.raw
        return names, [name, int(line.tick), queue, raw, _stored(line), HISTORY, HISTORY_SECONDS]

    # ----------------------------------------------------------------------------------- by hand
    def pause(self, name: str) -> bool:
        """Let no tick of it push; False when that was so already."""
        return bool(self._changed(("SADD", self._paused, name)))

    def resume(self, name: str) -> bool:
        """Let it go on with its next tick; False when it was not paused."""
        return bool(self._redis.run(RESUME, [self._ticks, self._paused, self.revision], [name]))

    def add(self, entry: Entry) -> bool:
        """Add an entry, or change it; True when it is new."""
        keys = [self._ticks, self._entries, self.revision]
        return bool(self._redis.run(ADD, keys, [entry.name, entry.as_json()]))

    def remove(self, name: str) -> bool:
        """Remove an entry that was added at run time, with its history; False when there is none."""
        rest = [("HDEL", self._ticks, name), ("SREM", self._paused, name), ("DEL", self._history(name))]
        return bool(self._changed(("HDEL", self._entries, name), *rest))

    def _changed(self, *commands: tuple[str, ...]) -> Any:
        replies = self._redis.pipeline([("MULTI",), *commands, ("INCR", self.revision), ("EXEC",)])
        return replies[-1][0]

    def note(self, name: str, line: Line) -> None:
        """Add a line to the history."""
        key = self._history(name)
        self._redis.pipeline(
            [("LPUSH", key, _stored(line)), ("LTRIM", key, 0, HISTORY - 1), ("EXPIRE", key, HISTORY_SECONDS)]
        )

    def correct(self, name: str, line: Line, by: Line) -> None:
        """Put another line in the place of one."""
        self._redis.call("LREM", self._history(name), 1, _stored(line))
        self.note(name, by)

    def history(self, name: str) -> list[Line]:
        """The last ten lines, the latest first."""
        return list(_lines(self._redis.call("LRANGE", self._history(name), 0, HISTORY - 1)))

    def last_lines(self, names: Sequence[str]) -> dict[str, Line]:
        """The latest line of each name that has one."""
        commands = [("LINDEX", self._history(name), 0) for name in names]
        replies = self._redis.pipeline(commands) if commands else []
        found = ((name, next(_lines([raw]), None)) for name, raw in zip(names, replies, strict=True) if raw)
        return {name: line for name, line in found if line is not None}

    # --------------------------------------------------------------------------------- registers
    def publish(self, entries: Sequence[Entry], since: float, now: float) -> None:
        """Tell for three minutes what is registered in this process.

        Args:
            since: epoch seconds; where processes differ, who began last is shown.
            now: the server's time.
        """
        told = {entry.name: entry.as_json() for entry in entries}
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
        key, stored = self._register(digest), json.dumps({"since": since, "entries": told})
        self._redis.pipeline(
            [
                ("SET", key, stored, "EX", REGISTER_SECONDS),
                ("ZADD", self._registers, now, digest),
                ("ZREMRANGEBYSCORE", self._registers, "-inf", now - REGISTER_SECONDS),
            ]
        )

    def published(self) -> dict[str, list[Entry]]:
        """What is registered in processes that live: name -> its versions, the latest first."""
        digests = [_text(digest) for digest in self._redis.call("ZRANGE", self._registers, 0, -1)]
        found: list[Any] = self._redis.call("MGET", *map(self._register, digests)) if digests else []
        versions: dict[str, list[Entry]] = {}
        for register in sorted((json.loads(raw) for raw in found if raw), key=_since, reverse=True):
            for entry in _entries(register["entries"].items()):
                known = versions.setdefault(entry.name, [])
                if entry not in known:
                    known.append(entry)
        return versions

    def added(self) -> list[Entry]:
        """What was added at run time."""
        stored = hashes.pairs(self._redis.call("HGETALL", self._entries))
        return list(_entries((_text(name), raw) for name, raw in stored))

    def paused(self) -> frozenset[str]:
        """The names of those that are paused."""
        return frozenset(map(_text, self._redis.call("SMEMBERS", self._paused)))


def _entries(stored: Any) -> Iterator[Entry]:
    for name, raw in stored:
        try:
            yield Entry.from_json(name, raw)
        except ConfigurationError:
            continue  # of a version that is not ours; whoever runs it tells


def _stored(line: Line) -> str:
    return json.dumps(asdict(line), separators=(",", ":"))


def _stored_reply(reply: Any) -> Any:
    """What a script of a transaction has answered. An error there came after the claim: that job is lost."""
    if isinstance(reply, Exception):
        raise reply if isinstance(reply, OffsiderError) else RedisRefused(str(reply))
    return reply


def _lines(raws: Sequence[bytes]) -> Iterator[Line]:
    for raw in raws:
        try:
            yield Line(**json.loads(raw))
        except (TypeError, ValueError):
            continue


def _since(register: Mapping[str, Any]) -> float:
    return float(register["since"])


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
