"""Slots and held jobs of groups: the classes, keys, selectors and queues with a limit, and those that are held.

======================================  ====  ========================================  =======
key                                     type  written by                                expires
======================================  ====  ========================================  =======
``offsider:limits``                     hash  workers (class -> limits in code, time)   never
``offsider:groups``                     set   start of a run (groups)                   never
``offsider:groups:due``                 zset  holding (group -> time of next check)     never
``offsider:slots:<group>``              zset  start of a run (run -> since)             never
``offsider:starts:<group>``             zset  start of a run (run -> since)             window
``offsider:resumed:<group>``            zset  resuming (jid -> time)                    never
``offsider:resumed-payloads:<group>``   hash  resuming (jid -> job in its queue)        never
``offsider:held:<group>``               list  start of a run (held jobs)                never
``offsider:held-run:<run>``             str   the same, for jobs in no private list     10 min
======================================  ====  ========================================  =======

A group is the subject of a control (`offsider.core.controls`): a job takes a slot in each of its groups, or is held in
one of them. Only groups with slots or held jobs have keys, apart from recent starts, which expire.

A run is ``<identity> <number> <jid>``: the process, the number of the run in it, and the job. A slot is a lease of its
process: it ends with the outcome of the run, or when the process leaves the registry of owners or is declared dead. All
times are in milliseconds of the server's clock. A list of held jobs has the format of a queue.

A job that goes back to its queue has the field ``resumed_at``, and keeps a slot for `KEPT_MS`. If it is claimed later,
it takes a free slot or becomes the first held job again. While it waits in its queue, no other job of its group is
resumed into that queue: it would overtake.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

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

TAKE_SLOTS = Script("take_slots")
HOLD = Script("hold")
FREE_SLOTS = Script("free_slots")
FREE_DEAD_SLOTS = Script("free_dead_slots")
KEEP_SLOT = Script("keep_slot")
NEXT_HELD = Script("next_held")
RESUME_HELD = Script("resume_held")
FORGET_GROUP = Script("forget_group")

#: Lease of the process that resumes held jobs.
LEASE = "limits"
#: Milliseconds until the next check of a group with held jobs, unless its rate limit delays it; and the maximum number
#: of groups of one check.
CHECK_MS = 1_000
MAX_GROUPS = 1_000
#: A slot is reserved this long for a resumed job; after that its queue may have no free worker.
KEPT_MS = 10_000
#: A resumed job that does not run for this long is forgotten: most likely it was deleted.
REMEMBERED_MS = 3_600_000
#: Limits reported by workers are applied this long, and shown for a day.
DECLARED_SECONDS = 300
SHOWN_SECONDS = 86_400
#: Maximum jobs resumed by one script, and by one call for a group without a limit.
BATCH = 100
MAX_RESUMED = 10_000
#: Maximum jobs skipped, because their queues are paused or have resumed jobs: at the end of a run, and in the check
#: once a second.
SKIPPED_AT_ONCE = 200
MAX_SKIPPED = 20_000


class Rate(NamedTuple):
    """At most ``starts`` starts within ``window_ms``; any number for 0."""

    starts: int = 0
    window_ms: int = 0


ANY_RATE = Rate()


class SlotGroup(NamedTuple):
    """A group that limits a job.

    Attributes:
        name: the subject.
        limit: maximum concurrent runs; 0 for no limit, negative if nothing runs.
        rate: maximum starts in a time.
    """

    name: str
    limit: int
    rate: Rate = ANY_RATE


class SlotAnswer(IntEnum):
    """The reply to a job that asked for slots."""

    #: Another process has the job.
    LOST = 0
    TAKEN = 1
    HELD = 2
    #: Held behind other jobs although a slot is free: the next one may be resumed.
    HELD_BEHIND = 3
    #: Taken by a resumed job, and no other resumed job of its group waits: the next ones may be resumed.
    TAKEN_LAST = 4


class LimitedRun(NamedTuple):
    """A run that has or needs slots.

    Attributes:
        member: unique among all runs.
        process: the identity of its process.
        groups: the groups whose slots it takes.
    """

    member: str
    process: str
    groups: tuple[SlotGroup, ...]

    @property
    def jid(self) -> str:
        return self.member.rpartition(" ")[2]


class Holder(NamedTuple):
    """A run that has a slot: its job, its process and its start in epoch seconds."""

    jid: str
    process: str
    since: float
    member: str


class GroupCounts(NamedTuple):
    """Slots in use, slots reserved for resumed jobs, and held jobs of one group."""

    in_use: int
    kept: int
    held: int


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


def take(redis: Redis, run: LimitedRun, job: Candidate, *, again: bool = False) -> tuple[SlotAnswer, SlotGroup | None]:
    """Take a slot in each group of a run, or hold its job. Return the answer and the group in which jobs are held.

    Args:
        redis: the server of the job.
        run: the run that needs the slots.
        job: the payload to hold and its private list.
        again: the reply to the same call was lost.
    """
    keys = redis.keys
    own = [keys.fenced(run.process), keys.groups, keys.groups_due, keys.places, keys.held_run(run.member)]
    arguments: list[Argument] = [run.member, run.jid, KEPT_MS, job.raw, job.stored, int(again)]
    for group in run.groups:
        own += _keys(keys, group.name)
        arguments += (group.name, group.limit, *group.rate)
    if job.entry is not None:
        own.append(_private_list(keys, job.entry))
    answer, index = redis.run(TAKE_SLOTS, own, arguments)
    return SlotAnswer(answer), run.groups[int(index) - 1] if index else None


def hold(
    redis: Redis, process: str, group: SlotGroup, jobs: Sequence[tuple[Candidate, PrivateListEntry]]
) -> tuple[int, bool]:
    """Hold claimed jobs of a group without a free slot. Return their number, and whether a slot is free by now."""
    keys = redis.keys
    own = [keys.fenced(process), keys.groups, keys.groups_due, keys.places]
    own += (keys.slots(group.name), keys.held(group.name), *(_private_list(keys, entry) for _, entry in jobs))
    arguments: list[Argument] = [group.name, group.limit]
    for job, _ in jobs:
        arguments += (job.raw, job.stored)
    held, is_free = redis.run(HOLD, own, arguments)
    return held, bool(is_free)


def _keys(keys: Keys, name: str) -> list[str]:
    return [keys.slots(name), keys.resumed(name), keys.resumed_payloads(name), keys.held(name), keys.starts(name)]


def _private_list(keys: Keys, entry: PrivateListEntry) -> str:
    return keys.working(entry.owner.identity, entry.owner.capsule, entry.queue)


def releasing(keys: Keys, run: LimitedRun, done: Callable[[int | None, Outcome], None]) -> Effect:
    """Return the effect that frees the slots of a run; ``done`` gets the number of held jobs of its groups."""
    return Effect(FREE_SLOTS, _slots_and_held(keys, run), [run.member], done=done)


def release(redis: Redis, run: LimitedRun) -> None:
    """Free the slots of a run."""
    redis.run(FREE_SLOTS, _slots_and_held(redis.keys, run), [run.member])


def _slots_and_held(keys: Keys, run: LimitedRun) -> list[str]:
    return [key for group in run.groups for key in (keys.slots(group.name), keys.held(group.name))]


# ---------------------------------------------------------------------------------- resuming


def resume(redis: Redis, group: SlotGroup, *, now_seconds: float, at_once: bool = False) -> int:
    """Resume held jobs while slots are free, and return their number.

    No job is resumed into a queue in which an earlier one still waits, because it would overtake it there.

    Args:
        redis: the server.
        group: the group and its limits.
        now_seconds: the new ``enqueued_at`` of resumed jobs.
        at_once: a slot was freed. Resumes nothing while other resumed jobs have a reserved slot: the start of the last
            one, or the next check, resumes more. Skips only a few jobs of paused queues.
    """
    keys, is_limited = redis.keys, group.limit != 0 or group.rate.starts > 0
    own = [keys.slots(group.name), keys.resumed(group.name), keys.held(group.name), keys.starts(group.name)]
    skipped = resumed = 0
    most_skipped = SKIPPED_AT_ONCE if at_once else MAX_SKIPPED
    stuck: set[str] = set()
    while skipped < most_skipped and resumed < MAX_RESUMED:
        limits: list[Argument] = [group.limit, *group.rate, KEPT_MS]
        room, waiting, kept, *page = redis.run(NEXT_HELD, own, [*limits, skipped, BATCH])
        if waiting and not skipped:
            if kept and at_once:
                return 0
            stuck |= _queues_of_resumed(redis, group.name)
            most_skipped = SKIPPED_AT_ONCE if kept else most_skipped  # the check comes again each second
        chosen, passed = _choose([_back(redis, raw, now_seconds) for raw in reversed(page)], room, stuck)
        replies = _resume(redis, own, limits, group.name, chosen) if chosen else []
        moved = replies.count(_MOVED)
        resumed += moved
        stuck |= {job.queue for job, reply in zip(chosen, replies, strict=True) if reply == _STUCK}
        skipped += passed + replies.count(_STUCK)
        if _NO_ROOM in replies or not (passed or _STUCK in replies or (moved and not is_limited)):
            break
    return resumed


_MOVED = 1
_NO_ROOM = -1
_STUCK = -2


class _Back(NamedTuple):
    """A held job to resume: its payload as held and as requeued, its queue and its jid."""

    raw: bytes
    stored: bytes
    queue: str
    jid: str


def _back(redis: Redis, raw: bytes, now_seconds: float) -> _Back | None:
    """Return None for bytes that are not a job: another program wrote them, and they stay."""
    try:
        payload = decode(raw)
        payload["enqueued_at"] = now = stamp(now_seconds, redis.settings.wire_version)
        known = normalize(payload)
        return _Back(raw, encode({**payload, "resumed_at": now}), known.get("queue", ""), known.get("jid", ""))
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


def _queues_of_resumed(redis: Redis, name: str) -> set[str]:
    """Return the queues in which resumed jobs still wait."""
    stored = redis.call("HVALS", redis.keys.resumed_payloads(name))[:BATCH]
    queues_of = [normalize(decode(raw)).get("queue", "") for raw in stored]
    commands: list[Command] = [
        ("LPOS", redis.keys.queue(queue), raw, "RANK", -1, "MAXLEN", MAX_SKIPPED)
        for queue, raw in zip(queues_of, stored, strict=True)
    ]
    replies = redis.pipeline(commands) if commands else []
    return {queue for queue, place in zip(queues_of, replies, strict=True) if place is not None}


def _resume(
    redis: Redis, own: Sequence[str], limits: Sequence[Argument], name: str, jobs: Sequence[_Back]
) -> list[int]:
    keys = redis.keys
    all_keys = [*own, keys.resumed_payloads(name), keys.paused, keys.queues, keys.places]
    all_keys += (keys.queue(job.queue) for job in jobs)
    arguments = [*limits]
    for job in jobs:
        arguments += (job.raw, job.stored, job.queue, job.jid)
    replies: list[int] = redis.run(RESUME_HELD, all_keys, arguments)
    return replies


class DueGroups(NamedTuple):
    """Groups with held jobs to check now, the longest due first, and the seconds until the next one is due."""

    names: list[str]
    next_seconds: float


def due_groups(redis: Redis) -> DueGroups:
    """Return the groups to check. The time is read only if there are held jobs."""
    first = redis.call("ZRANGE", redis.keys.groups_due, 0, MAX_GROUPS - 1, "WITHSCORES")
    now_ms = clocks.look(redis)[0] * 1000 if first else 0.0
    groups = [(hashes.text(name), due - now_ms) for name, due in hashes.scores(first)]
    return DueGroups(
        [name for name, left_ms in groups if left_ms <= 0],
        min((left_ms / 1000 for _, left_ms in groups if left_ms > 0), default=math.inf),
    )


def forget(redis: Redis, group: SlotGroup) -> float:
    """Forget resumed jobs that did not run for `REMEMBERED_MS`, and a group without slots and held jobs.

    A group with held jobs is checked again after `CHECK_MS`, or when its rate limit allows the next start. Returns the
    seconds until then; infinite without held jobs.
    """
    keys, name = redis.keys, group.name
    own = [keys.slots(name), keys.resumed(name), keys.held(name), keys.starts(name), keys.resumed_payloads(name)]
    own += (keys.groups, keys.places, keys.groups_due)
    left_ms = int(redis.run(FORGET_GROUP, own, [name, REMEMBERED_MS, CHECK_MS, *group.rate]))
    return left_ms / 1000 if left_ms >= 0 else math.inf


# ------------------------------------------------------------------------------- leases of processes


def free_dead(redis: Redis, name: str) -> int:
    """Free the slots of processes that were declared dead or have left. Return their number."""
    keys = redis.keys
    members: dict[str, list[str]] = {}
    for holder in holders(redis, name):
        members.setdefault(holder.process, []).append(holder.member)
    freed = 0
    for process in _dead(redis, list(members)):
        own = [keys.slots(name), keys.owners, keys.fenced(process)]
        freed += int(redis.run(FREE_DEAD_SLOTS, own, [process, *members[process]]))
    return freed


def _dead(redis: Redis, processes: Sequence[str]) -> list[str]:
    """Return the processes that left the registry of owners or were declared dead."""
    commands: list[Command] = []
    for process in processes:
        commands += (("HEXISTS", redis.keys.owners, process), ("EXISTS", redis.keys.fenced(process)))
    replies = redis.pipeline(commands) if commands else []
    each = zip(processes, replies[::2], replies[1::2], strict=True)
    return [process for process, registered, fenced in each if fenced or not registered]


def missing(redis: Redis, runs: Sequence[LimitedRun]) -> list[LimitedRun]:
    """Return the runs that lack a slot, in one round trip."""
    wanted = [(run, group.name) for run in runs for group in run.groups]
    replies = redis.pipeline([("ZSCORE", redis.keys.slots(name), run.member) for run, name in wanted]) if wanted else []
    return list(dict.fromkeys(run for (run, _), since in zip(wanted, replies, strict=True) if since is None))


def keep(redis: Redis, run: LimitedRun) -> None:
    """Give a run its slots again, even over the limit: it is already running."""
    for group in run.groups:
        own = [redis.keys.slots(group.name), redis.keys.groups, redis.keys.fenced(run.process)]
        redis.run(KEEP_SLOT, own, [run.member, group.name])


# ------------------------------------------------------------------------------------------ reading


def groups(redis: Redis) -> list[str]:
    """Return the groups with slots in use or held jobs, and some that had them recently."""
    return sorted(hashes.text(name) for name in redis.call("SMEMBERS", redis.keys.groups))


def some_groups(redis: Redis) -> list[str]:
    """Return up to `MAX_GROUPS` of them, chosen at random."""
    return [hashes.text(name) for name in redis.call("SRANDMEMBER", redis.keys.groups, MAX_GROUPS)]


def counts(redis: Redis, names: Sequence[str]) -> dict[str, GroupCounts]:
    """Return the counts of each group."""
    now_ms = clocks.look(redis)[0] * 1000
    commands: list[Command] = []
    for name in names:
        commands += (
            ("ZCARD", redis.keys.slots(name)),
            ("ZCOUNT", redis.keys.resumed(name), int(now_ms) - KEPT_MS, "+inf"),
            ("LLEN", redis.keys.held(name)),
        )
    replies = redis.pipeline(commands) if commands else []
    return {name: GroupCounts(*map(int, replies[3 * at : 3 * at + 3])) for at, name in enumerate(names)}


def holders(redis: Redis, *names: str, most: int = 0) -> list[Holder]:
    """Return the runs that have slots, oldest first in each group; ``most`` of each group, 0 for all."""
    commands = [("ZRANGE", redis.keys.slots(name), 0, most - 1, "WITHSCORES") for name in names]
    found: list[Holder] = []
    for reply in redis.pipeline(commands) if commands else []:
        for raw, since in hashes.scores(reply):
            member = hashes.text(raw)
            found.append(Holder(member.rpartition(" ")[2], member.partition(" ")[0], since / 1000, member))
    return found


def held(redis: Redis, name: str, start: int, count: int) -> list[bytes]:
    """Return payloads of held jobs, next first; ``start`` counts from 0."""
    return queues.page(redis, redis.keys.held(name), start, count)


def declare(redis: Redis, limits: Mapping[str, tuple[int, Rate]], now_seconds: float) -> None:
    """Publish the limits in a worker's code, by class; a class whose limits were removed has none."""
    if limits:
        pairs: list[Argument] = []
        for name, (limit, rate) in limits.items():
            pairs += (name, f"{limit} {rate.starts} {rate.window_ms} {int(now_seconds)}")
        redis.call("HSET", redis.keys.limits, *pairs)


def declared(redis: Redis, now_seconds: float, within_seconds: float = DECLARED_SECONDS) -> dict[str, tuple[int, Rate]]:
    """Return the limits that workers reported recently, without classes that have none."""
    reported: dict[str, tuple[int, Rate]] = {}
    for name, value in hashes.texts(redis.call("HGETALL", redis.keys.limits)):
        limit, starts, window_ms, at = _reported(value)
        if now_seconds - at > SHOWN_SECONDS:
            redis.call("HDEL", redis.keys.limits, name)
        elif now_seconds - at <= within_seconds and (limit or starts):
            reported[name] = limit, Rate(starts, window_ms)
    return reported


def _reported(value: str) -> list[int]:
    """Return limit, starts, window and time; zeros for a value that another program wrote."""
    found = [*map(hashes.count, value.split(" "))]
    return found if len(found) == 4 else [0, 0, 0, 0]
