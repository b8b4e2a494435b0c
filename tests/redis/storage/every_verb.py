"""One walk through every verb that has a script, for servers that make a difference: full, clustered, restricted."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from offsider.core.controls import Control
from offsider.core.error_text import Frame
from offsider.core.errors import Fenced
from offsider.core.outcome import Succeeded
from offsider.core.payload import encode
from offsider.storage import (
    control_table,
    due_jobs,
    error_groups,
    iteration,
    job_sets,
    leases,
    owners,
    places,
    processes,
    quarantine,
    queues,
    slots,
    stats,
    steps,
    stranded,
    strikes,
    working,
)
from offsider.storage.activity import Activity
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.due_jobs import Due
from offsider.storage.effects import run_alone
from offsider.storage.error_groups import FailedRun, Noted
from offsider.storage.iteration import IterationState
from offsider.storage.owners import Lists
from offsider.storage.places import Move, MoveResult, MoveTarget, PlacedJob
from offsider.storage.redis import Redis
from offsider.storage.slots import Candidate, LimitedRun, SlotAnswer, SlotGroup
from offsider.storage.steps import StoredStep
from offsider.storage.working import DeadSetLimits, Owner, PrivateListEntry

OWNER = Owner("host:1:aaaaaaaaaaaa", "default")
LISTS = Lists(OWNER.identity, {"default": ("high", "low")})
DEAD = Owner("host:2:bbbbbbbbbbbb", "default")
DEAD_LISTS = Lists(DEAD.identity, {"default": ("high", "low")})
LIMITS = DeadSetLimits()
LONG_AGO = 1_000_000_000.0


def seed(client: Any, keys: Any) -> None:
    """What the walk needs; written with a plain client, since a full server takes no pushes."""
    client.sadd(keys.queues, "high", "low")
    client.lpush(keys.queue("low"), *(f"low {n}" for n in range(1, 8)))
    client.lpush(keys.queue("high"), "high 1")
    client.sadd(keys.queues, "extra")
    client.lpush(keys.queue("extra"), "extra 1", "extra 2")
    client.zadd(keys.prefix + "extra", {"extra": 1})
    client.lpush(keys.queue("dropped"), "dropped 1")
    client.lpush(
        keys.queue("limited"),
        *(encode({"class": "HardJob", "args": [], "jid": jid, "queue": "limited"}) for jid in "abc"),
    )
    client.lpush(keys.queue("moving"), "moving 1", "moving 2")
    client.zadd(keys.schedule, {"due": LONG_AGO, "gone": LONG_AGO, "bad": LONG_AGO, "later": 9e9})
    client.lpush(keys.working(DEAD.identity, "default", "low"), "orphan", "pill")
    client.hset(keys.owners, DEAD.identity, '{"default": ["high", "low"]}')
    client.lpush(keys.signals(OWNER.identity), "TSTP")


def walk(redis: Redis) -> None:
    """Call every verb and check its result."""
    keys = redis.keys
    owners.beat(redis, LISTS, 45_000)
    assert owners.prolong(redis, LISTS.identity, 45_000)
    assert owners.lists_of(redis, LISTS.identity) == LISTS
    _settle(redis)
    _look(redis, [b"bad", b"due", b"gone"])
    moves = [Move(b"due", b"due now", "low"), Move(b"nobody", b"x", "low"), Move(b"later", b"x", "low")]
    assert places.move(redis, "schedule", moves, places.QUEUES, only_due=True) == [
        MoveResult.DONE,
        MoveResult.GONE,
        MoveResult.GONE,
    ]
    assert places.move(redis, "schedule", [Move(b"bad", b"bad")], places.dead_set(LIMITS)) == [MoveResult.DONE]
    assert places.move(redis, "schedule", [Move(b"nobody")], places.NOWHERE) == [MoveResult.GONE]
    assert job_sets.defer(redis, keys.schedule, b"gone", 60)
    _quarantine(redis)
    _control(redis)
    _slots(redis)
    stranded.note(redis, "HardJob", "not declared")
    run_alone(redis, [stats.counting_expired(keys, "HardJob")])
    assert stats.expired_counts(redis) == {"HardJob": 1}
    _note_error(redis, "group")
    _progress(redis)
    assert not processes.write(redis, OWNER.identity, {"info": "{}"}, {"1": "{}"}, Activity(), wire_version=8)
    assert processes.take_signal(redis, OWNER.identity) == "TSTP"
    assert processes.write(
        redis, OWNER.identity, {"busy": 1}, {"2": "{}"}, Activity(), ended=["0"], is_beat=False, wire_version=8
    )
    processes.send_signal(redis, OWNER.identity, "TERM")
    assert processes.take_signal(redis, OWNER.identity) == "TERM"
    _make_room(redis)
    _move(redis)
    assert leases.acquire(redis, redis.keys.leader, OWNER.identity, 60) == 0
    assert leases.release(redis, redis.keys.leader, OWNER.identity)
    _reclaim(redis)
    owners.note_stop(redis, OWNER.identity)
    assert owners.forget(redis, LISTS, leaving=True)


def _quarantine(redis: Redis) -> None:
    assert queues.enqueued_at(redis, ["low", "none"]) == [None, None]
    for where, raw, position in (("schedule", b"gone", 0), ("queue:low", b"due now", 6)):
        seen = [PlacedJob(raw, position, 1.5), PlacedJob(b"nobody", 1)]
        moves = [quarantine.move_of(job, where, at=1.5, how="test") for job in seen]
        assert places.move(redis, where, moves, quarantine.for_days(1)) == [MoveResult.DONE, MoveResult.GONE]
    for job in quarantine.page(redis, 0, 10):
        is_queue = json.loads(job.head)["where"] == "queue:low"
        to = places.QUEUES if is_queue else MoveTarget("set", "schedule")
        again = Move(job.id.encode(), detail="low" if is_queue else "1.5")
        assert places.move(redis, "quarantine", [again], to) == [MoveResult.DONE]


def _control(redis: Redis) -> None:
    """A job of a class that is dropped, and the control itself."""
    (entry,) = working.claim(redis, OWNER, ("dropped",), 1)
    assert quarantine.put_from_run(redis, entry, days=1, most=9, at=1.5, how="test")
    (put_aside,) = quarantine.page(redis, 0, 10)
    assert places.move(redis, "quarantine", [Move(put_aside.id.encode())], places.NOWHERE) == [MoveResult.DONE]
    control_table.put(redis, Control("HardJob", "drop"))
    assert not control_table.forget(redis, "HardJob", b"another")
    assert control_table.clear(redis, "HardJob")


def _slots(redis: Redis) -> None:
    """One job runs, two are held and resumed, and the slot of a dead process is freed."""
    group, free = SlotGroup("HardJob", 1), SlotGroup("HardJob", 0)
    claimed = working.claim(redis, OWNER, ("limited",), 3)
    first, second, third = [Candidate(entry.raw, entry.raw, entry) for entry in claimed]
    run = LimitedRun(f"{OWNER.identity} 1 a", OWNER.identity, (group,))
    assert slots.take(redis, run, first) == (SlotAnswer.TAKEN, None)
    assert slots.take(redis, run._replace(member=f"{OWNER.identity} 2 b"), second) == (SlotAnswer.HELD, group)
    assert slots.hold(redis, OWNER.identity, group, [(third, claimed[2])]) == (1, False)
    assert slots.due_groups(redis).names == ["HardJob"]
    slots.keep(redis, run)
    slots.release(redis, run)
    assert slots.resume(redis, group, now_seconds=LONG_AGO) == 1
    assert slots.forget(redis, group) == 1
    assert slots.resume(redis, free, now_seconds=LONG_AGO) == 1
    resumed = working.claim(redis, OWNER, ("limited",), 2)
    again = run._replace(member=f"{OWNER.identity} 3 b")
    assert slots.take(redis, again, Candidate(resumed[0].raw, resumed[0].raw, resumed[0])) == (SlotAnswer.TAKEN, None)
    slots.release(redis, again)
    assert [working.acknowledge(redis, entry) for entry in (claimed[0], *resumed)] == [True] * 3
    slots.keep(redis, run._replace(member="host:3:cccccccccccc 1 x", process="host:3:cccccccccccc"))
    assert slots.free_dead(redis, "HardJob") == 1
    assert slots.forget(redis, free) == math.inf
    assert queues.clear(redis, "limited") == 0


def _make_room(redis: Redis) -> None:
    """By hand, and with as little as a full server allows."""
    keys = redis.keys
    assert queues.position(redis, "extra", b"extra 2") == 1
    assert places.move(redis, "queue:extra", [Move(b"extra 1")], places.NOWHERE) == [MoveResult.DONE]
    assert queues.clear(redis, "extra") == 1
    assert queues.clear(redis, "extra") == 0
    assert not queues.forget(redis, "extra")
    later = [Move(b"later", b"later", 8e9), Move(b"nobody", b"nobody", 8e9)]
    assert places.move(redis, "schedule", later, MoveTarget("set", "schedule")) == [MoveResult.DONE, MoveResult.GONE]
    assert job_sets.clear(redis, keys.prefix + "extra") == 1
    _note_error(redis, "dead")
    assert error_groups.delete(redis, "dead")


def _note_error(redis: Redis, group: str) -> None:
    run = FailedRun("HardJob", "ValueError", "no", Frame(), LONG_AGO, user="ann")
    noted = Noted(run, "Traceback", LONG_AGO)
    noted.add(run)
    error_groups.note(redis, {group: noted})


def _move(redis: Redis) -> None:
    """Jobs move to a queue, and others leave for the same server as if it were another one."""
    jobs = [Move(b"moving 1", b"moved 1", "moved"), Move(b"moving 3", b"x", "moved")]
    assert places.move(redis, "queue:moving", jobs, places.QUEUES) == [MoveResult.DONE, MoveResult.GONE]
    leaving = [places.departing(b"moving 2", b"moved 2", "moved", "here", 0)]
    assert places.move(redis, "queue:moving", leaving, MoveTarget("list", "here")) == [MoveResult.DONE]
    assert places.transits(redis) == {"here": 1}
    assert places.deliver(redis, "here", redis) == 1
    again = [Move(b"moving 4", b"moved 4", 8e9)]
    assert places.move(redis, "schedule", again, MoveTarget("set", "retry")) == [MoveResult.GONE]


def _look(redis: Redis, due: list[bytes]) -> None:
    gone = ("schedule", [Move(b"nobody", b"x", "low")])
    assert leases.acquire(redis, redis.keys.schedule_lease, "host:1:scheduler", 60) == 0
    assert leases.renew(redis, redis.keys.schedule_lease, "host:1:scheduler", 60)
    moved, sets = due_jobs.move_and_look(redis, [gone], 10)
    assert moved == [[MoveResult.GONE]]
    known = [one for one in sets if isinstance(one, Due)]
    assert [one.members for one in known] == [[], due]
    assert due_jobs.has_earlier(redis, known) == bool(due)
    assert leases.release(redis, redis.keys.schedule_lease, "host:1:scheduler")


def _settle(redis: Redis) -> None:
    claimed = working.claim(redis, OWNER, ("high", "low"), 6)
    assert [entry.raw for entry in claimed] == [b"high 1", b"low 1", b"low 2", b"low 3", b"low 4", b"low 5"]
    assert owners.held(redis, LISTS) == 6
    done, retried, rescheduled, buried, interrupted, returned = claimed
    (suspect,) = working.claim(redis, OWNER, ("low",), 1)
    assert working.put_last(redis, suspect)
    assert working.acknowledge(redis, done)
    assert working.postpone(redis, retried, redis.keys.retry, b"retried", 15.5)
    assert working.postpone(redis, rescheduled, redis.keys.schedule, b"again", 30)
    assert working.bury(redis, buried, b"buried", LIMITS)
    assert working.put_back(redis, [(interrupted, b"interrupted"), (returned, returned.raw)]) == [True, True]


def _progress(redis: Redis) -> None:
    keys, state = redis.keys, IterationState(1, "7")
    assert not iteration.keep(redis, "j", OWNER.identity, state)
    assert iteration.read(redis, "j") == state
    assert steps.store(redis, "j", OWNER.identity, "a", StoredStep(1, "f", 1.0, 0.5), life_seconds=60)
    assert [*steps.read(redis, "j").steps] == ["a"]
    kept = iteration.keeping(keys, "j", OWNER.identity, lambda: state, lambda: 60.0)
    effects = [kept, steps.keeping(keys, "j", lambda: 60.0, lambda: None)]
    for goes in ("retry", "gone"):
        run_alone(redis, [one for effect in effects for one in effect.applied(Succeeded(), goes)])
    assert iteration.read(redis, "j") is None


def _reclaim(redis: Redis) -> None:
    assert leases.acquire(redis, redis.keys.sweep, OWNER.identity, 1) == 0
    assert owners.look(redis, [DEAD.identity, OWNER.identity], 45_000) == []
    assert not owners.fence(redis, LISTS)
    assert owners.fence(redis, DEAD_LISTS)
    assert owners.look(redis, [DEAD.identity, OWNER.identity], 45_000) == [DEAD.identity]
    orphan = PrivateListEntry(DEAD, "low", b"orphan")
    pill = PrivateListEntry(DEAD, "low", b"pill")
    assert owners.held(redis, DEAD_LISTS) == 2
    assert owners.newest(redis, DEAD_LISTS, 10) == [pill, orphan]
    assert strikes.bury(redis, pill, b"poison", LIMITS)
    assert strikes.reclaim(redis, [(orphan, b"orphan again")]) == [True]
    assert strikes.died_with(redis, b"orphan") == [DEAD.identity]
    assert not owners.forget(redis, DEAD_LISTS, leaving=False)
    for write in (lambda: owners.beat(redis, DEAD_LISTS, 1000), lambda: working.acknowledge(redis, orphan)):
        try:
            write()
        except Fenced:
            continue
        raise AssertionError("a fenced owner must not write")


def left_behind(keys: Any, stored: dict[str, Any]) -> None:
    """What the walk has to leave in Redis, seen by a snapshot: one of a Cluster has no hash tag."""
    stored = {key if key.startswith(keys.prefix) else DEFAULT_PREFIX + key: value for key, value in stored.items()}
    assert stored.pop(keys.queue("low")) == [b"due now", b"low 6", b"low 7", b"interrupted", b"low 5", b"orphan again"]
    assert stored.pop(keys.queues) == {b"high", b"low", b"moved"}
    assert stored.pop(keys.queue("moved")) == [b"moved 2", b"moved 1"]
    assert stored.pop(keys.transits) == {b"here"}
    for mark in [key for key in stored if key.startswith(keys.stored("", ""))]:
        assert stored.pop(mark) == b"1"
    assert set(stored.pop(keys.schedule)) == {b"again", b"gone", b"later"}
    assert set(stored.pop(keys.retry)) == {b"retried"}
    assert set(stored.pop(keys.dead)) == {b"buried", b"bad", b"poison"}
    assert stored.pop(keys.fenced(DEAD.identity)) == b"2 0"
    assert set(stored.pop(keys.owners)) == {DEAD.identity.encode()}
    assert set(stored.pop(keys.suspects)) == {DEAD.identity.encode(), f"{DEAD.identity} empty".encode()}
    for raw in (b"orphan", b"pill"):
        assert set(stored.pop(keys.strikes(hashlib.sha256(raw).hexdigest()))) == {DEAD.identity.encode()}
    assert stored.pop(keys.sweep) == OWNER.identity.encode()
    assert stored.pop(keys.processes) == {OWNER.identity.encode()}
    process = stored.pop(keys.process(OWNER.identity))
    assert (set(process), process[b"info"], process[b"busy"]) == ({b"info", b"busy", b"activity"}, b"{}", b"1")
    assert stored.pop(keys.work(OWNER.identity)) == {b"1": b"{}", b"2": b"{}"}
    assert stored.pop(keys.stranded) == {b"HardJob": b"not declared"}
    assert stored.pop(keys.expired) == {b"HardJob": b"1"}
    assert stored.pop(keys.stranded_counts) == {b"HardJob": b"1"}
    assert stored.pop(keys.errors) == {b"group": LONG_AGO}
    assert stored.pop(keys.error("group"))[b"attempts"] == b"1"
    assert stored.pop(keys.error_users("group")).startswith(b"HYLL")
    assert len(stored.pop(keys.every_series("errors"))) == 2
    for counts in [key for key in stored if key.startswith(f"{keys.every_series('errors')}:")]:
        assert stored.pop(counts)
    assert len(stored.pop(keys.controls_version)) == 1
    assert not stored, stored
