"""Slots and held jobs in Redis.

=================================  ====  ========================================  =======
key                                type  written by                                expires
=================================  ====  ========================================  =======
``offsider:limits``                hash  operators (class -> limit at run time)    never
``offsider:limits:paused``         set   operators (paused classes)                never
``offsider:limits:declared``       hash  workers (class -> limit in code, time)    never
``offsider:limits:active``         set   start of a run (groups)                   never
``offsider:limits:rates``          hash  holding (class -> starts, milliseconds)   never
``offsider:limits:due``            zset  holding (group -> time of next check)     never
``offsider:limits:slots:<group>``  zset  start of a run (run -> since)             never
``offsider:limits:recent:<group>`` zset  start of a run (run -> since)             window
``offsider:limits:came:<group>``   zset  resuming (jid -> time)                    never
``offsider:limits:back:<group>``   hash  resuming (jid -> job in its queue)        never
``offsider:limits:jobs:<group>``   list  start of a run (held jobs)                never
``offsider:limits:gone:<run>``     str   the same, for jobs in no private list     10 min
=================================  ====  ========================================  =======

A group is a class, or ``<class>[<key>]``: the jobs of a class with one key. Only groups with slots or held jobs have
keys, apart from recent starts, which expire. A check resumes held jobs of due groups only.

A run is ``<identity> <number> <jid>``: the process, the number of the run in it, and the job. All times are in
milliseconds of the server's clock. The list of held jobs has the format of a queue (see `storage.places`, which
registers it).

A job that goes back to its queue keeps a slot for `KEPT_MS`. If it is claimed later, it takes a free slot or becomes
the first held job again. While it waits in its queue, no other job of its group is resumed into that queue: it would
overtake.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from importlib.resources import files
from typing import TYPE_CHECKING

from offsider.core.errors import MalformedPayload
from offsider.core.normalize import normalize
from offsider.core.payload import decode, encode, stamp
from offsider.storage import clocks, hashes, queues
from offsider.storage.effects import Effect
from offsider.storage.scripts import Script

if TYPE_CHECKING:
    from offsider.core.outcome import Outcome
    from offsider.storage.keys import Keys
    from offsider.storage.redis import Redis
    from offsider.storage.scripts import Argument, Command
    from offsider.storage.working import PrivateListEntry

_LUA = files("offsider.ext.concurrency_limits") / "lua"
ENTER = Script("enter", _LUA)
RELEASE = Script("release", _LUA)
NEXT = Script("next", _LUA)
RESUME = Script("resume", _LUA)
FREE = Script("free", _LUA)
FORGET = Script("forget", _LUA)
KEEP = Script("keep", _LUA)

#: Milliseconds until the next check of a group with held jobs, unless its rate limit delays it; and the maximum number
#: of groups of one check.
CHECK_MS = 1_000
MOST_GROUPS = 1_000
#: A slot is reserved this long for a resumed job; after that its queue may have no free worker.
KEPT_MS = 10_000
#: A resumed job that does not run for this long is forgotten: most likely it was deleted.
REMEMBERED_MS = 3_600_000
#: Limits reported by workers are applied this long, and shown for a day. Workers report every 75 seconds.
DECLARED_SECONDS = 300
SHOWN_SECONDS = 86_400
#: Maximum jobs resumed by one call, and maximum jobs skipped on the way, because their queues are paused or have
#: resumed jobs: few at the end of a run, many in the check once a second.
MOST_AT_ONCE = 100
FEW_SKIPPED = 200
MOST_SKIPPED = 20_000


class Entered(IntEnum):
    """The reply to a job that asked for a slot."""

    #: Another process has the job.
    LOST = 0
    TAKEN = 1
    UNLIMITED = 2
    HELD = 3
    #: Held behind other jobs although a slot is free: the next one may be resumed.
    HELD_BEHIND = 4
    #: Taken by a resumed job, and no other resumed job waits: the next ones may be resumed.
    TAKEN_LAST = 5


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has or needs a slot.

    Attributes:
        name: of the group: the class, with the key of the job if it has one.
        member: unique among all runs.
        process: the identity of its process.
    """

    name: str
    member: str
    process: str

    @classmethod
    def read(cls, name: str, member: bytes) -> Run:
        text = member.decode(errors="replace")
        return cls(name, text, text.partition(" ")[0])

    @property
    def jid(self) -> str:
        return self.member.rpartition(" ")[2]


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits and paused classes set at run time, and groups with held jobs.

    Attributes:
        due: groups to check now, the longest due first.
        next_seconds: time until the next group is due; infinite if it is unknown.
    """

    limits: Mapping[str, int]
    paused: frozenset[str]
    due: tuple[str, ...]
    next_seconds: float


@dataclass(frozen=True, slots=True)
class Counts:
    """Slots in use, slots reserved for resumed jobs, and held jobs of one class."""

    in_use: int
    kept: int
    held: int


def group_name(name: str, key: str) -> str:
    """Return the name of the group of a class and a key; of the class itself for an empty key."""
    return f"{name}[{key}]" if key else name


def class_of(group: str) -> str:
    """Return the class of a group."""
    return group.partition("[")[0] if group.endswith("]") else group


class Names:
    """The keys of one group, and the keys shared by all."""

    def __init__(self, keys: Keys) -> None:
        self.limits = f"{keys.prefix}offsider:limits"
        self.paused = f"{self.limits}:paused"
        self.declared = f"{self.limits}:declared"
        self.active = f"{self.limits}:active"
        self.rates = f"{self.limits}:rates"
        self.due = f"{self.limits}:due"
        self._jobs = f"{self.limits}:jobs:"

    def slots(self, name: str) -> str:
        return f"{self.limits}:slots:{name}"

    def resumed(self, name: str) -> str:
        return f"{self.limits}:came:{name}"

    def back(self, name: str) -> str:
        return f"{self.limits}:back:{name}"

    def recent(self, name: str) -> str:
        return f"{self.limits}:recent:{name}"

    def gone(self, run: Run) -> str:
        return f"{self.limits}:gone:{run.member}"

    def held(self, name: str) -> str:
        return self._jobs + name

    def of(self, name: str) -> list[str]:
        """Return the first keys of every script that works on a group."""
        lists = [self.slots(name), self.resumed(name), self.held(name)]
        return [*lists, self.limits, self.paused, self.recent(name), self.rates]


def enter(
    redis: Redis, run: Run, jid: str, declared: int, job: Candidate, *, rate: str = "", again: bool = False
) -> Entered:
    """Take a slot for a run, or hold its job.

    Args:
        redis: the server of the job.
        run: the run that needs the slot.
        jid: of the job.
        declared: the limit in code; a limit set at run time overrides it.
        job: the payload to hold and its private list.
        rate: the rate limit: maximum starts and milliseconds; empty without one.
        again: the reply to the same call was lost.
    """
    keys, names = redis.keys, Names(redis.keys)
    own = [*names.of(run.name), names.due, names.active, keys.places, keys.fenced(run.process)]
    own += (names.back(run.name), names.gone(run))
    if job.entry is not None:
        owner = job.entry.owner
        own.append(keys.working(owner.identity, owner.capsule, job.entry.queue))
    arguments: list[Argument] = [run.member, jid, class_of(run.name), declared, KEPT_MS, job.raw, job.stored]
    return Entered(int(redis.run(ENTER, own, [*arguments, int(again), run.name, rate])))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that may have to be held.

    Attributes:
        raw: as it was taken from its queue.
        stored: the payload to hold; it is requeued to the queue in its ``queue``.
        entry: its place in a private list; None if it is in none.
    """

    raw: bytes
    stored: bytes
    entry: PrivateListEntry | None

    @classmethod
    def of(cls, raw: bytes, queue: str, named: object, entry: PrivateListEntry | None) -> Candidate:
        """Build it for a job of ``queue`` whose payload names ``named``: they differ if the job was moved by hand."""
        stored = raw if named == queue else encode({**decode(raw), "queue": queue})
        return cls(raw, stored, entry)


def releasing(keys: Keys, run: Run, done: Callable[[int | None, Outcome], None]) -> Effect:
    """Return the effect that frees the slot of a run; ``done`` gets the number of held jobs of the class."""
    names = Names(keys)
    return Effect(RELEASE, [names.slots(run.name), names.held(run.name)], [run.member], done=done)


def release(redis: Redis, run: Run) -> None:
    """Free the slot of a run."""
    names = Names(redis.keys)
    redis.run(RELEASE, [names.slots(run.name), names.held(run.name)], [run.member])


def resume(redis: Redis, name: str, declared: int, *, now_seconds: float, at_once: bool = False) -> int:
    """Resume held jobs while slots are free, and return their number.

    No job is resumed into a queue in which an earlier one still waits, because it would overtake it there.

    Args:
        redis: the server.
        name: of the group.
        declared: the limit in code.
        now_seconds: the new ``enqueued_at`` of resumed jobs.
        at_once: a slot was freed. Resumes nothing while other resumed jobs have a reserved slot: the start of the last
            one, or the next check, resumes more. Skips only a few jobs of paused queues.
    """
    names, skipped, resumed = Names(redis.keys), 0, 0
    most_skipped = FEW_SKIPPED if at_once else MOST_SKIPPED
    stuck: set[str] = set()
    while skipped < most_skipped:
        arguments: list[Argument] = [class_of(name), declared, KEPT_MS, skipped, MOST_AT_ONCE]
        room, waiting, kept, *page = redis.run(NEXT, names.of(name), arguments)
        if waiting and not skipped:
            if kept and at_once:
                return 0
            stuck |= _queues_of_resumed(redis, names, name)
            most_skipped = FEW_SKIPPED if kept else most_skipped  # the check comes again each second
        chosen, passed = _choose([_back(redis, raw, now_seconds) for raw in reversed(page)], room, stuck)
        replies = _resume(redis, name, declared, chosen) if chosen else []
        resumed += replies.count(_MOVED)
        stuck |= {job.queue for job, reply in zip(chosen, replies, strict=True) if reply == _STUCK}
        skipped += passed + replies.count(_STUCK)
        if _NO_ROOM in replies or not (passed or _STUCK in replies):
            return resumed
    return resumed


_MOVED = 1
_NO_ROOM = -1
_STUCK = -2


@dataclass(frozen=True, slots=True)
class _Back:
    """A held job to resume: its payload as held and as requeued, its queue and its jid."""

    raw: bytes
    stored: bytes
    queue: str
    jid: str


def _back(redis: Redis, raw: bytes, now_seconds: float) -> _Back | None:
    """Return None for bytes that are not a job: another program wrote them, and they stay."""
    try:
        payload = decode(raw)
        payload["enqueued_at"] = stamp(now_seconds, redis.settings.wire_version)
        known = normalize(payload)
        return _Back(raw, encode(payload), known.get("queue", ""), known.get("jid", ""))
    except MalformedPayload:
        return None


def _choose(jobs: Sequence[_Back | None], room: int, stuck: Collection[str]) -> tuple[list[_Back], int]:
    """Return the first jobs that can be resumed, and the number skipped before them, as their queue is in ``stuck``."""
    chosen: list[_Back] = []
    passed = 0
    for job in jobs:
        if len(chosen) == room:
            break
        if job is None or job.queue in stuck:
            passed += 1
        else:
            chosen.append(job)
    return chosen, passed


def _queues_of_resumed(redis: Redis, names: Names, name: str) -> set[str]:
    """Return the queues in which resumed jobs still wait."""
    stored = redis.call("HVALS", names.back(name))[:MOST_AT_ONCE]
    queues_of = [normalize(decode(raw)).get("queue", "") for raw in stored]
    commands: list[Command] = [
        ("LPOS", redis.keys.queue(queue), raw, "RANK", -1, "MAXLEN", MOST_SKIPPED)
        for queue, raw in zip(queues_of, stored, strict=True)
    ]
    replies = redis.pipeline(commands) if commands else []
    return {queue for queue, place in zip(queues_of, replies, strict=True) if place is not None}


def _resume(redis: Redis, name: str, declared: int, jobs: Sequence[_Back]) -> list[int]:
    keys = redis.keys
    names = Names(keys)
    own = [*names.of(name), keys.paused, keys.queues, keys.places, names.back(name)]
    own += (keys.queue(job.queue) for job in jobs)
    arguments: list[Argument] = [class_of(name), declared, KEPT_MS]
    for job in jobs:
        arguments += (job.raw, job.stored, job.queue, job.jid)
    replies: list[int] = redis.run(RESUME, own, arguments)
    return replies


def settings(redis: Redis) -> Settings:
    """Return the current settings. The time is read only if groups are to be checked."""
    names = Names(redis.keys)
    limits, paused, first = redis.pipeline(
        [
            ("HGETALL", names.limits),
            ("SMEMBERS", names.paused),
            ("ZRANGE", names.due, 0, MOST_GROUPS - 1, "WITHSCORES"),
        ]
    )
    now_ms = clocks.look(redis)[0] * 1000 if first else 0.0
    groups = [(hashes.text(name), float(due) - now_ms) for name, due in zip(first[::2], first[1::2], strict=True)]
    return Settings(
        hashes.wholes(limits),
        frozenset(hashes.text(name) for name in paused),
        tuple(name for name, left_ms in groups if left_ms <= 0),
        min((left_ms / 1000 for _, left_ms in groups if left_ms > 0), default=math.inf),
    )


def set_limit(redis: Redis, name: str, limit: int | None) -> None:
    """Set a limit at run time; None removes it."""
    key = Names(redis.keys).limits
    redis.call("HDEL", key, name) if limit is None else redis.call("HSET", key, name, limit)


def set_paused(redis: Redis, name: str, *, paused: bool) -> bool:
    """Pause or resume a class; return False if nothing changed."""
    return bool(redis.call("SADD" if paused else "SREM", Names(redis.keys).paused, name))


def declare(redis: Redis, limits: Mapping[str, int], aliases: Mapping[str, str], now_seconds: float) -> None:
    """Publish the limits in a worker's code.

    Args:
        redis: the server.
        limits: by class; 0 for a class whose limit was removed.
        aliases: the other names of classes.
        now_seconds: epoch seconds, the time of the report.
    """
    values = {**{name: str(limit) for name, limit in limits.items()}, **{a: f"={name}" for a, name in aliases.items()}}
    if values:
        pairs = [item for name, value in values.items() for item in (name, f"{value} {int(now_seconds)}")]
        redis.call("HSET", Names(redis.keys).declared, *pairs)


def declared(redis: Redis, now_seconds: float, within_seconds: float = DECLARED_SECONDS) -> dict[str, int]:
    """Return the limits that workers reported recently, without classes that have none."""
    reported = _reported(redis, now_seconds, within_seconds)
    return {name: limit for name, what in reported.items() if (limit := hashes.whole(what))}


def aliases(redis: Redis, now_seconds: float) -> dict[str, str]:
    """Return the other names of classes, as reported by workers within a day."""
    reported = _reported(redis, now_seconds, SHOWN_SECONDS)
    return {name: what.removeprefix("=") for name, what in reported.items() if what.startswith("=")}


def _reported(redis: Redis, now_seconds: float, within_seconds: float) -> dict[str, str]:
    key = Names(redis.keys).declared
    reported: dict[str, str] = {}
    for name, value in hashes.pairs(redis.call("HGETALL", key)):
        what, _, at = hashes.text(value).rpartition(" ")
        age_seconds = now_seconds - (hashes.whole(at) or 0)
        if age_seconds > SHOWN_SECONDS:
            redis.call("HDEL", key, name)
        elif age_seconds <= within_seconds:
            reported[hashes.text(name)] = what
    return reported


def active(redis: Redis) -> list[str]:
    """Return the groups with slots in use or held jobs, and some that had them recently."""
    return sorted(hashes.text(name) for name in redis.call("SMEMBERS", Names(redis.keys).active))


def some_active(redis: Redis) -> list[str]:
    """Return up to `MOST_GROUPS` of them, chosen at random."""
    return [hashes.text(name) for name in redis.call("SRANDMEMBER", Names(redis.keys).active, MOST_GROUPS)]


def rates(redis: Redis) -> dict[str, str]:
    """Return the rate limits of classes that had held jobs."""
    return dict(hashes.texts(redis.call("HGETALL", Names(redis.keys).rates)))


def counts(redis: Redis, classes: Sequence[str], now_ms: float) -> list[Counts]:
    """Return the counts of each class in one round trip."""
    names = Names(redis.keys)
    commands: list[Command] = []
    for name in classes:
        commands += (
            ("ZCARD", names.slots(name)),
            ("ZCOUNT", names.resumed(name), int(now_ms) - KEPT_MS, "+inf"),
            ("LLEN", names.held(name)),
        )
    replies = redis.pipeline(commands) if commands else []
    return [Counts(*map(int, replies[at : at + 3])) for at in range(0, len(replies), 3)]


def runs(redis: Redis, *groups: str, most: int = 0) -> list[tuple[Run, float]]:
    """Return the runs that have slots and their start in epoch seconds, oldest first in each group.

    ``most``: maximum number for each group; 0: all.
    """
    names = Names(redis.keys)
    replies = redis.pipeline([("ZRANGE", names.slots(group), 0, most - 1, "WITHSCORES") for group in groups])
    return [
        (Run.read(group, member), float(since) / 1000)
        for group, reply in zip(groups, replies, strict=True)
        for member, since in zip(reply[::2], reply[1::2], strict=True)
    ]


def free_dead(redis: Redis, name: str) -> int:
    """Free the slots of processes that were declared dead or have left. Return their number."""
    names, keys = Names(redis.keys), redis.keys
    members: dict[str, list[str]] = {}
    for run, _ in runs(redis, name):
        members.setdefault(run.process, []).append(run.member)
    freed = 0
    for process in _dead(redis, list(members)):
        own = [names.slots(name), keys.owners, keys.fenced(process)]
        freed += int(redis.run(FREE, own, [process, *members[process]]))
    return freed


def _dead(redis: Redis, processes: Sequence[str]) -> list[str]:
    """Return the processes that left the registry of owners or were declared dead."""
    commands: list[Command] = []
    for process in processes:
        commands += (("HEXISTS", redis.keys.owners, process), ("EXISTS", redis.keys.fenced(process)))
    replies = redis.pipeline(commands) if commands else []
    each = zip(processes, replies[::2], replies[1::2], strict=True)
    return [process for process, registered, fenced in each if fenced or not registered]


def missing(redis: Redis, runs: Sequence[Run]) -> list[Run]:
    """Return the runs without a slot, in one round trip."""
    names = Names(redis.keys)
    replies = redis.pipeline([("ZSCORE", names.slots(run.name), run.member) for run in runs]) if runs else []
    return [run for run, since in zip(runs, replies, strict=True) if since is None]


def keep(redis: Redis, run: Run) -> None:
    """Give a run its slot again, even over the limit: it is already running."""
    names = Names(redis.keys)
    own = [names.slots(run.name), names.active, redis.keys.fenced(run.process)]
    redis.run(KEEP, own, [run.member, run.name])


def forget(redis: Redis, name: str) -> float:
    """Forget resumed jobs that did not run for `REMEMBERED_MS`, and a group without slots and held jobs.

    A group with held jobs is checked again after `CHECK_MS`, or when its rate limit allows the next start. Returns the
    seconds until then; infinite without held jobs.
    """
    names = Names(redis.keys)
    lists = [names.slots(name), names.resumed(name), names.held(name)]
    own = [*lists, names.active, redis.keys.places, names.back(name), names.recent(name), names.rates, names.due]
    left_ms = int(redis.run(FORGET, own, [name, REMEMBERED_MS, class_of(name), CHECK_MS]))
    return left_ms / 1000 if left_ms >= 0 else math.inf


def held(redis: Redis, name: str, start: int, count: int) -> list[bytes]:
    """Return payloads of held jobs, next first; ``start`` counts from 0."""
    return queues.page(redis, Names(redis.keys).held(name), start, count)
