"""Slots and parked jobs in Redis, and every call that touches them.

=================================  ====  ========================================  =======
key                                type  written by                                expires
=================================  ====  ========================================  =======
``offsider:limits``                hash  people (class -> limit set at run time)   never
``offsider:limits:paused``         set   people (classes that may not run)         never
``offsider:limits:declared``       hash  workers (class -> limit in code, when)    never
``offsider:limits:active``         set   the beginning of a run (classes)          never
``offsider:limits:slots:<class>``  zset  the beginning of a run (run -> since)     never
``offsider:limits:came:<class>``   zset  resuming (jid -> when)                    never
``offsider:limits:back:<class>``   hash  resuming (jid -> job in its queue)        never
``offsider:limits:jobs:<class>``   list  the beginning of a run (parked jobs)      never
``offsider:limits:gone:<run>``     str   the same, of jobs in no private list      10 min
=================================  ====  ========================================  =======

A run is ``<identity> <number> <jid>``: the process, the number of the run in it, and the job. All times are the
server's, in milliseconds. The list has the form of a queue (see `storage.places`, where it is noted).

A job that goes back to its queue keeps a slot for `KEPT_MS`; if it comes later it has to see whether one is free, and
is the first in the list otherwise. While it still is in its queue, no further job goes back there: it would come to
stand before it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from importlib.resources import files
from typing import TYPE_CHECKING

from offsider.core.errors import MalformedPayload
from offsider.core.payload import decode, encode, stamp
from offsider.storage import places, queues
from offsider.storage.scripts import Script

if TYPE_CHECKING:
    from offsider.storage.keys import Keys
    from offsider.storage.redis import Redis
    from offsider.storage.scripts import Argument, Command
    from offsider.storage.working import Entry

_LUA = files("offsider.ext.concurrency_limits.lua")
ENTER = Script("enter", _LUA)
LEAVE = Script("leave", _LUA)
RESUME = Script("resume", _LUA)
FREE = Script("free", _LUA)
FORGET = Script("forget", _LUA)
KEEP = Script("keep", _LUA)

#: For so long a slot is kept for a job that was resumed; then it may be that nobody serves its queue.
KEPT_MS = 10_000
#: After so long nobody remembers that a job was resumed: it was deleted, most likely.
REMEMBERED_MS = 3_600_000
#: What workers say of their limits is acted upon for so long, and shown for a day; they say it again in good time.
DECLARED_SECONDS = 300
SHOWN_SECONDS = 86_400
#: The most jobs that one call resumes, and that are passed by on the way to one whose queue is not paused: few at the
#: end of a run, many by who looks once a second.
MOST_AT_ONCE = 100
FEW_SKIPPED = 200
MOST_SKIPPED = 20_000


class Entered(IntEnum):
    """What became of a job that asked for a slot."""

    #: Another process has the job by now.
    LOST = 0
    TAKEN = 1
    UNLIMITED = 2
    PARKED = 3
    #: Parked behind others though a slot is free: the next one may be resumed.
    PARKED_BEHIND = 4


@dataclass(frozen=True, slots=True)
class Run:
    """A run that wants a slot, or has one.

    Attributes:
        name: of the class.
        member: unique among all runs.
        process: the identity of the process that it runs in.
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
    """What was set at run time: limits by class, and the classes that are paused; and where jobs are parked."""

    limits: Mapping[str, int]
    paused: frozenset[str]
    parked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one class: slots in use, slots that are kept for resumed jobs, and parked jobs."""

    in_use: int
    kept: int
    parked: int


class Names:
    """The keys of one class, and those of all."""

    def __init__(self, keys: Keys) -> None:
        self.limits = f"{keys.prefix}offsider:limits"
        self.paused = f"{self.limits}:paused"
        self.declared = f"{self.limits}:declared"
        self.active = f"{self.limits}:active"
        self._jobs = f"{self.limits}:jobs:"

    def slots(self, name: str) -> str:
        return f"{self.limits}:slots:{name}"

    def resumed(self, name: str) -> str:
        return f"{self.limits}:came:{name}"

    def back(self, name: str) -> str:
        return f"{self.limits}:back:{name}"

    def gone(self, run: Run) -> str:
        return f"{self.limits}:gone:{run.member}"

    def parked(self, name: str) -> str:
        return self._jobs + name

    def class_of(self, place: str) -> str | None:
        """The class whose parked jobs lie in a list; None when it is a list of somebody else's."""
        return place.removeprefix(self._jobs) if place.startswith(self._jobs) else None

    def of(self, name: str) -> list[str]:
        """The keys that every script on a class begins with."""
        return [self.slots(name), self.resumed(name), self.parked(name), self.limits, self.paused]


def enter(redis: Redis, run: Run, jid: str, declared: int, job: Parkable, *, again: bool = False) -> Entered:
    """Take a slot for a run, or park its job.

    Args:
        redis: where the job lies.
        run: that wants the slot.
        jid: of the job.
        declared: the limit in code; what was set at run time is stronger.
        job: where it lies, and the payload to park.
        again: the reply to the same call was lost.
    """
    keys, names = redis.keys, Names(redis.keys)
    own = [*names.of(run.name), names.active, keys.places, keys.fenced(run.process)]
    own += (names.back(run.name), names.gone(run))
    if job.entry is not None:
        owner = job.entry.owner
        own.append(keys.working(owner.identity, owner.capsule, job.entry.queue))
    reply = redis.run(ENTER, own, [run.member, jid, run.name, declared, KEPT_MS, job.raw, job.stored, int(again)])
    return Entered(int(reply))


@dataclass(frozen=True, slots=True)
class Parkable:
    """A job that may have to be parked.

    Attributes:
        raw: as it was taken from its queue.
        stored: the payload to park; its ``queue`` says where it goes back to.
        entry: where it lies in a private list; None when it lies nowhere meanwhile.
    """

    raw: bytes
    stored: bytes
    entry: Entry | None

    @classmethod
    def of(cls, raw: bytes, queue: str, said: object, entry: Entry | None) -> Parkable:
        """Of a job of ``queue`` whose payload says ``said``: a job that was moved by hand may say another one."""
        stored = raw if said == queue else encode({**decode(raw), "queue": queue})
        return cls(raw, stored, entry)


def leave(redis: Redis, run: Run | None, name: str, declared: int, *, now_seconds: float) -> int:
    """Free the slot of a run, and let those parked jobs go on that find one; the number of these.

    Args:
        redis: where they are.
        run: that is over; None: only resume.
        name: of the class.
        declared: the limit in code.
        now_seconds: the time that is written into jobs that go back to their queue.
    """
    names, member, skipped, resumed = Names(redis.keys), "" if run is None else run.member, 0, 0
    stuck: set[str] = set()
    while skipped < (MOST_SKIPPED if run is None else FEW_SKIPPED):
        arguments: list[Argument] = [member, name, declared, KEPT_MS, skipped, MOST_AT_ONCE]
        room, late, *page = redis.run(LEAVE, names.of(name), arguments)
        if late and not skipped:
            stuck |= _queues_of_late(redis, names, name)
        chosen, passed = _choose([_back(redis, raw, now_seconds) for raw in reversed(page)], room, stuck)
        # The next one last, so that it is at the head of the queue.
        answers = [_resume(redis, name, declared, job) for job in reversed(chosen)]
        member, resumed = "", resumed + answers.count(_MOVED)
        stuck |= {job.queue for job, said in zip(reversed(chosen), answers, strict=True) if said == _STUCK}
        skipped += passed + answers.count(_STUCK)
        if _NO_ROOM in answers or not (passed or _STUCK in answers):
            return resumed
    return resumed


_MOVED = 1
_NO_ROOM = -1
_STUCK = -2


@dataclass(frozen=True, slots=True)
class _Back:
    """A parked job on its way back: as it is parked, as it is to be stored, its queue and its jid."""

    raw: bytes
    stored: bytes
    queue: str
    jid: str


def _back(redis: Redis, raw: bytes, now_seconds: float) -> _Back | None:
    """None for bytes that are no job: somebody has written them who knows what they shall be."""
    try:
        payload = decode(raw)
        payload["enqueued_at"] = stamp(now_seconds, redis.settings.wire_version)
        return _Back(raw, encode(payload), payload.get("queue", ""), payload.get("jid", ""))
    except MalformedPayload:
        return None


def _choose(jobs: Sequence[_Back | None], room: int, stuck: Collection[str]) -> tuple[list[_Back], int]:
    """The first jobs that can go on, and how many before them cannot: their queue is paused."""
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


def _queues_of_late(redis: Redis, names: Names, name: str) -> set[str]:
    """The queues in which jobs still wait that were resumed long ago: nobody has had a thread for them."""
    stored = redis.call("HVALS", names.back(name))[:MOST_AT_ONCE]
    queues_of = [decode(raw).get("queue", "") for raw in stored]
    commands: list[Command] = [
        ("LPOS", redis.keys.queue(queue), raw, "RANK", -1, "MAXLEN", MOST_SKIPPED)
        for queue, raw in zip(queues_of, stored, strict=True)
    ]
    replies = redis.pipeline(commands) if commands else []
    return {queue for queue, place in zip(queues_of, replies, strict=True) if place is not None}


def _resume(redis: Redis, name: str, declared: int, job: _Back) -> int:
    keys = redis.keys
    names = Names(keys)
    own = [*names.of(name), keys.paused, keys.queues, keys.queue(job.queue), keys.places, names.back(name)]
    return int(redis.run(RESUME, own, [name, declared, KEPT_MS, job.raw, job.stored, job.queue, job.jid]))


def settings(redis: Redis) -> Settings:
    """What holds now, in one round trip."""
    names = Names(redis.keys)
    limits, paused, lists = redis.pipeline(
        [("HGETALL", names.limits), ("SMEMBERS", names.paused), ("SMEMBERS", redis.keys.places)]
    )
    pairs = zip(limits[::2], limits[1::2], strict=True)
    parked = [name for key in sorted(lists) if (name := names.class_of(key.decode())) is not None]
    return Settings(
        {name.decode(): int(limit) for name, limit in pairs},
        frozenset(name.decode() for name in paused),
        tuple(parked),
    )


def set_limit(redis: Redis, name: str, limit: int | None) -> None:
    """Set a limit at run time; None takes it back."""
    key = Names(redis.keys).limits
    redis.call("HDEL", key, name) if limit is None else redis.call("HSET", key, name, limit)


def set_paused(redis: Redis, name: str, *, paused: bool) -> bool:
    """Pause a class, or have it go on; False when it was so before."""
    return bool(redis.call("SADD" if paused else "SREM", Names(redis.keys).paused, name))


def declare(redis: Redis, limits: Mapping[str, int], aliases: Mapping[str, str], now_seconds: float) -> None:
    """Say which limits the code of a worker has.

    Args:
        redis: where to.
        limits: by class; 0 for one that has none any more.
        aliases: the other names of classes.
        now_seconds: epoch seconds.
    """
    said = {**{name: str(limit) for name, limit in limits.items()}, **{a: f"={name}" for a, name in aliases.items()}}
    if said:
        pairs = [item for name, what in said.items() for item in (name, f"{what} {int(now_seconds)}")]
        redis.call("HSET", Names(redis.keys).declared, *pairs)


def declared(redis: Redis, now_seconds: float, within_seconds: float = DECLARED_SECONDS) -> dict[str, int]:
    """The limits that workers have said lately, without classes that have none."""
    said = _said(redis, now_seconds, within_seconds)
    return {name: int(what) for name, what in said.items() if not what.startswith("=") and int(what)}


def aliases(redis: Redis, now_seconds: float) -> dict[str, str]:
    """The other names of classes, as workers have said within the day."""
    said = _said(redis, now_seconds, SHOWN_SECONDS)
    return {name: what.removeprefix("=") for name, what in said.items() if what.startswith("=")}


def _said(redis: Redis, now_seconds: float, within_seconds: float) -> dict[str, str]:
    key = Names(redis.keys).declared
    reply = redis.call("HGETALL", key)
    said: dict[str, str] = {}
    for name, value in zip(reply[::2], reply[1::2], strict=True):
        what, _, at = value.decode().rpartition(" ")
        age_seconds = now_seconds - int(at)
        if age_seconds > SHOWN_SECONDS:
            redis.call("HDEL", key, name)
        elif age_seconds <= within_seconds:
            said[name.decode()] = what
    return said


def active(redis: Redis) -> list[str]:
    """The classes that have slots in use or parked jobs; some that had them lately."""
    return sorted(name.decode() for name in redis.call("SMEMBERS", Names(redis.keys).active))


def counts(redis: Redis, classes: Sequence[str], now_ms: float) -> list[Counts]:
    """Of each class, in one round trip."""
    names = Names(redis.keys)
    commands: list[Command] = []
    for name in classes:
        commands += (
            ("ZCARD", names.slots(name)),
            ("ZCOUNT", names.resumed(name), int(now_ms) - KEPT_MS, "+inf"),
            ("LLEN", names.parked(name)),
        )
    replies = redis.pipeline(commands) if commands else []
    return [Counts(*map(int, replies[at : at + 3])) for at in range(0, len(replies), 3)]


def runs(redis: Redis, name: str, most: int = -1) -> list[tuple[Run, float]]:
    """The runs that have slots and since when, in epoch seconds, the oldest first."""
    stop = most - 1 if most > 0 else -1
    reply = redis.call("ZRANGE", Names(redis.keys).slots(name), 0, stop, "WITHSCORES")
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return [(Run.read(name, member), float(since) / 1000) for member, since in pairs]


def free_dead(redis: Redis, name: str) -> int:
    """Free the slots of processes that were declared dead or have left; how many they were."""
    names, keys = Names(redis.keys), redis.keys
    held: dict[str, list[str]] = {}
    for run, _ in runs(redis, name):
        held.setdefault(run.process, []).append(run.member)
    freed = 0
    for process in _dead(redis, list(held)):
        own = [names.slots(name), keys.owners, keys.fenced(process)]
        freed += int(redis.run(FREE, own, [process, *held[process]]))
    return freed


def _dead(redis: Redis, processes: Sequence[str]) -> list[str]:
    """Those that have left the registry of owners, or were declared dead."""
    commands: list[Command] = []
    for process in processes:
        commands += (("HEXISTS", redis.keys.owners, process), ("EXISTS", redis.keys.fenced(process)))
    replies = redis.pipeline(commands) if commands else []
    each = zip(processes, replies[::2], replies[1::2], strict=True)
    return [process for process, registered, fenced in each if fenced or not registered]


def missing(redis: Redis, runs: Sequence[Run]) -> list[Run]:
    """Those runs that have no slot, in one round trip."""
    names = Names(redis.keys)
    replies = redis.pipeline([("ZSCORE", names.slots(run.name), run.member) for run in runs]) if runs else []
    return [run for run, since in zip(runs, replies, strict=True) if since is None]


def keep(redis: Redis, run: Run) -> None:
    """Give a run its slot again, whatever the limit is: it runs."""
    names = Names(redis.keys)
    own = [names.slots(run.name), names.active, redis.keys.fenced(run.process)]
    redis.run(KEEP, own, [run.member, run.name])


def forget(redis: Redis, name: str) -> None:
    """Forget jobs that were resumed long ago and never came, and a class that has nothing any more."""
    names = Names(redis.keys)
    lists = [names.slots(name), names.resumed(name), names.parked(name)]
    own = [*lists, names.active, redis.keys.places, names.back(name)]
    redis.run(FORGET, own, [name, REMEMBERED_MS])


def parked(redis: Redis, name: str, start: int, count: int) -> list[bytes]:
    """Payloads of parked jobs, the next one first; ``start`` counts from 0."""
    return queues.page_of_list(redis, Names(redis.keys).parked(name), start, count)


def take_out(redis: Redis, name: str, raws: Sequence[bytes]) -> list[bytes]:
    """Delete parked jobs; those that were still there."""
    key = Names(redis.keys).parked(name)
    replies = redis.pipeline([("LREM", key, -1, raw) for raw in raws]) if raws else []
    return [raw for raw, gone in zip(raws, replies, strict=True) if gone]


def count_parked(redis: Redis) -> int:
    """How many jobs of all classes are parked."""
    names = Names(redis.keys)
    return sum(length for key, length in places.lengths(redis).items() if names.class_of(key) is not None)
