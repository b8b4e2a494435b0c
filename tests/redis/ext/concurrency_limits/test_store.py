"""Slots and parked jobs: one script decides, none is over the limit, none is lost, and the order is kept."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings as bounds, strategies as st

from offsider.core.errors import RedisRefused
from offsider.core.payload import decode, encode
from offsider.ext.concurrency_limits import store
from offsider.ext.concurrency_limits.store import Entered, Names, Parkable, Run
from offsider.storage import owners, places
from offsider.storage.owners import Lists
from offsider.storage.working import Entry, Owner

NAME = "Hard"
OWNER = Owner("host:1:0123456789ab", "default")
NOW = 1_700_000_000.0


def payload(jid, queue="default"):
    return encode({"class": NAME, "args": [], "jid": jid, "queue": queue})


class Stage:
    """Jobs in the private list of one process, which ask for slots one after the other."""

    def __init__(self, redis, client):
        self.redis, self.client = redis, client
        self.names = Names(redis.keys)
        self.working = redis.keys.working(OWNER.identity, OWNER.capsule, "default")
        self.numbers = iter(range(1_000_000))

    def run_of(self, jid):
        return Run(NAME, f"{OWNER.identity} {next(self.numbers)} {jid}", OWNER.identity)

    def claim(self, jid, queue="default"):
        raw = payload(jid, queue)
        self.client.lpush(self.working, raw)
        return Parkable.of(raw, queue, queue, Entry(OWNER, "default", raw))

    def enter(self, jid, limit, *, run=None, again=False, job=None):
        return store.enter(self.redis, run or self.run_of(jid), jid, limit, job or self.claim(jid), again=again)

    def leave(self, run, limit):
        return store.leave(self.redis, run, NAME, limit, now_seconds=NOW)

    def come(self):
        """The next job of the queue is claimed; its jid and what is to be parked."""
        raw = self.client.rpop("queue:default")
        self.client.lpush(self.working, raw)
        return decode(raw)["jid"], Parkable.of(raw, "default", "default", Entry(OWNER, "default", raw))

    @property
    def parked(self):
        return [decode(raw)["jid"] for raw in store.parked(self.redis, NAME, 0, 1000)]

    @property
    def queued(self):
        return [decode(raw)["jid"] for raw in reversed(self.client.lrange("queue:default", 0, -1))]

    @property
    def in_use(self):
        return self.client.zcard(self.names.slots(NAME))


@pytest.fixture
def stage(redis, raw_redis):
    return Stage(redis, raw_redis)


def test_slots_are_taken_up_to_the_limit_and_the_next_job_is_parked_in_one_step(stage, raw_redis):
    assert [stage.enter(jid, 2) for jid in "abcd"] == [Entered.TAKEN, Entered.TAKEN, Entered.PARKED, Entered.PARKED]
    assert (stage.in_use, stage.parked) == (2, ["c", "d"])
    assert [decode(raw)["jid"] for raw in raw_redis.lrange(stage.working, 0, -1)] == ["b", "a"]
    assert places.lengths(stage.redis) == {stage.names.parked(NAME): 2}


def test_a_freed_slot_is_kept_for_the_job_that_has_waited_longest(stage):
    runs = [stage.run_of(jid) for jid in "ab"]
    for run in runs:
        stage.enter(run.jid, 2, run=run)
    for jid in "cde":
        stage.enter(jid, 2)
    assert stage.leave(runs[0], 2) == 1
    assert (stage.queued, stage.parked, stage.in_use) == (["c"], ["d", "e"], 1)
    assert stage.enter("new", 2) is Entered.PARKED, "the slot is kept"
    jid, job = stage.come()
    assert stage.enter(jid, 2, job=job) is Entered.TAKEN
    assert store.counts(stage.redis, [NAME], server_ms(stage)) == [store.Counts(2, 0, 3)]


def server_ms(stage):
    seconds, microseconds = stage.client.time()
    return seconds * 1000 + microseconds / 1000


def test_a_resumed_job_goes_to_the_head_of_its_queue_and_waits_from_then_on(stage, raw_redis):
    run = stage.run_of("a")
    stage.enter("a", 1, run=run)
    stage.enter("b", 1)
    raw_redis.lpush("queue:default", payload("waiting"))
    stage.leave(run, 1)
    assert stage.queued == ["b", "waiting"]
    assert decode(raw_redis.lindex("queue:default", -1))["enqueued_at"] == NOW * 1000
    assert raw_redis.smembers("queues") == {b"default"}
    assert places.keys_of(stage.redis) == []


def test_a_resumed_job_that_comes_too_late_is_the_next_one(stage, raw_redis):
    run = stage.run_of("a")
    stage.enter("a", 1, run=run)
    for jid in "bc":
        stage.enter(jid, 1)
    stage.leave(run, 1)
    late, job = stage.come()
    raw_redis.zadd(stage.names.resumed(NAME), {late: 1})  # its time is over, and it is in its queue no more
    assert stage.leave(None, 1) == 1
    second, other = stage.come()
    assert stage.enter(second, 1, job=other) is Entered.TAKEN
    stage.enter("d", 1)
    assert stage.enter(late, 1, job=job) is Entered.PARKED
    assert stage.parked == ["b", "d"]


def test_no_job_is_resumed_into_a_queue_in_which_one_still_waits(stage, raw_redis):
    """It would come to stand before it; those of other queues go on."""
    run = stage.run_of("a")
    stage.enter("a", 1, run=run)
    for jid in "bc":
        stage.enter(jid, 1)
    stage.enter("other", 1, job=stage.claim("other", "elsewhere"))
    stage.leave(run, 1)
    raw_redis.zadd(stage.names.resumed(NAME), {"b": 1})  # its time is over
    assert stage.leave(None, 1) == 1
    assert (stage.queued, stage.parked, raw_redis.llen("queue:elsewhere")) == (["b"], ["c"], 1)
    raw_redis.zadd(stage.names.resumed(NAME), {"other": 1})
    assert stage.leave(None, 1) == 0
    jid, job = stage.come()
    assert stage.enter(jid, 1, job=job) is Entered.TAKEN
    assert raw_redis.hkeys(stage.names.back(NAME)) == [b"other"]


def test_while_jobs_are_parked_nobody_overtakes_them(stage):
    run = stage.run_of("a")
    stage.enter("a", 1, run=run)
    stage.enter("b", 1)
    stage.client.zrem(stage.names.slots(NAME), run.member)
    assert stage.enter("c", 1) is Entered.PARKED_BEHIND
    assert stage.parked == ["b", "c"]


@pytest.mark.parametrize("limit, entered", [(0, Entered.UNLIMITED), (-1, Entered.PARKED)])
def test_no_limit_takes_no_slot_and_a_negative_one_parks(stage, limit, entered):
    assert stage.enter("a", limit) is entered
    assert stage.in_use == 0


def test_what_was_set_at_run_time_is_stronger(stage):
    store.set_limit(stage.redis, NAME, 1)
    assert [stage.enter(jid, 5) for jid in "ab"] == [Entered.TAKEN, Entered.PARKED]
    store.set_limit(stage.redis, NAME, None)
    assert stage.leave(None, 5) == 1
    assert store.set_paused(stage.redis, NAME, paused=True)
    assert stage.enter("c", 5) is Entered.PARKED
    assert stage.leave(None, 5) == 0
    assert store.settings(stage.redis).paused == {NAME}
    assert store.set_paused(stage.redis, NAME, paused=False)
    assert stage.leave(None, 5) == 1


def test_without_a_limit_all_parked_jobs_go_on(stage):
    for number in range(50):
        stage.enter(f"j{number}", -1)
    assert stage.leave(None, 0) == 50
    assert stage.queued == [f"j{number}" for number in range(50)], "in their order"
    assert stage.parked == []


# ----------------------------------------------------------------------------- asked once more


@pytest.mark.parametrize("limit, entered", [(1, Entered.TAKEN), (-1, Entered.PARKED)])
def test_asked_again_it_answers_the_same_and_does_nothing_twice(stage, raw_redis, limit, entered):
    run, job = stage.run_of("a"), stage.claim("a")
    answers = [stage.enter("a", limit, run=run, job=job, again=again) for again in (False, True, True)]
    assert answers == [entered] * 3
    assert (stage.in_use, len(stage.parked)) == ((1, 0) if entered is Entered.TAKEN else (0, 1))


def test_a_job_that_was_parked_and_went_on_meanwhile_is_lost_to_who_asks_again(stage, raw_redis):
    run, job = stage.run_of("a"), stage.claim("a")
    stage.enter("a", -1, run=run, job=job)
    stage.leave(None, 1)
    assert stage.enter("a", 1, run=run, job=job, again=True) is Entered.LOST


def test_a_job_that_others_have_taken_is_not_parked(stage, raw_redis):
    job = stage.claim("a")
    raw_redis.delete(stage.working)
    assert stage.enter("a", -1, job=job) is Entered.LOST
    assert stage.parked == []


def test_a_process_that_was_declared_dead_takes_nothing(stage, raw_redis):
    raw_redis.set(stage.redis.keys.fenced(OWNER.identity), 1)
    assert stage.enter("a", 5) is Entered.LOST
    assert (stage.in_use, stage.parked) == (0, [])


def test_a_job_that_lies_nowhere_is_parked_once(stage):
    raw = payload("a")
    run, job = stage.run_of("a"), Parkable(raw, raw, None)
    assert [stage.enter("a", -1, run=run, job=job, again=again) for again in (False, True)] == [Entered.PARKED] * 2
    assert stage.parked == ["a"]


def test_a_job_that_lies_nowhere_and_went_on_meanwhile_is_not_run_beside_itself(stage, raw_redis):
    raw = payload("a")
    run, job = stage.run_of("a"), Parkable(raw, raw, None)
    stage.enter("a", -1, run=run, job=job)
    stage.leave(None, 1)
    assert stage.enter("a", 5, run=run, job=job, again=True) is Entered.PARKED
    assert stage.in_use == 0
    assert 0 < raw_redis.ttl(stage.names.gone(run)) <= 600


def test_a_job_that_was_moved_by_hand_goes_back_to_the_queue_it_came_from(stage):
    raw = payload("a", "other")
    stage.client.lpush(stage.working, raw)
    stage.enter("a", -1, job=Parkable.of(raw, "default", "other", Entry(OWNER, "default", raw)))
    stage.leave(None, 1)
    assert stage.queued == ["a"]


# ------------------------------------------------------------------------------- what is in the way


def test_jobs_of_a_paused_queue_stay_parked_and_hold_nobody_up(stage, raw_redis):
    for number in range(30):
        stage.enter(f"p{number}", -1, job=stage.claim(f"p{number}", "paused"))
    stage.enter("a", -1)
    raw_redis.sadd("paused", "paused")
    assert stage.leave(None, 3) == 1
    assert stage.queued == ["a"]
    assert len(stage.parked) == 30
    raw_redis.srem("paused", "paused")
    assert stage.leave(None, 3) == 2
    assert [decode(raw)["jid"] for raw in raw_redis.lrange("queue:paused", 0, -1)] == ["p1", "p0"], "p0 is the next"


def test_what_is_no_job_stays_where_it_is_and_holds_nobody_up(stage, raw_redis):
    stage.enter("a", -1)
    raw_redis.rpush(stage.names.parked(NAME), b"no job")
    assert stage.leave(None, 3) == 1
    assert raw_redis.lrange(stage.names.parked(NAME), 0, -1) == [b"no job"]


@pytest.mark.parametrize("wrong", ["jobs", "places"])
def test_a_destination_of_the_wrong_type_keeps_the_job(stage, raw_redis, wrong):
    key = stage.names.parked(NAME) if wrong == "jobs" else stage.redis.keys.places
    raw_redis.set(key, "wrong")
    with pytest.raises(RedisRefused):
        stage.enter("a", -1)
    assert raw_redis.llen(stage.working) == 1


def test_a_queue_of_the_wrong_type_leaves_the_job_parked(stage, raw_redis):
    stage.enter("a", -1)
    raw_redis.set("queue:default", "wrong")
    with pytest.raises(RedisRefused):
        stage.leave(None, 1)
    assert stage.parked == ["a"]


def test_a_full_server_parks_resumes_and_frees(stage, raw_redis):
    """Draining it is what makes room (allow-oom)."""
    run = stage.run_of("a")
    jobs = [(jid, stage.claim(jid)) for jid in "ab"]
    raw_redis.config_set("maxmemory", 1)
    try:
        assert stage.enter("a", 1, run=run, job=jobs[0][1]) is Entered.TAKEN
        assert stage.enter("b", 1, job=jobs[1][1]) is Entered.PARKED
        assert stage.leave(run, 1) == 1
    finally:
        raw_redis.config_set("maxmemory", 0)
    assert stage.queued == ["b"]


# ----------------------------------------------------------------------------------- who is gone


def test_slots_of_processes_that_are_gone_are_freed_and_those_of_others_are_not(stage, raw_redis):
    owners.beat(stage.redis, Lists(OWNER.identity, {"default": ("default",)}), 60_000)
    stage.enter("a", 3)
    gone, fenced = "host:2:0123456789ab", "host:3:0123456789ab"
    owners.beat(stage.redis, Lists(fenced, {"default": ("default",)}), 60_000)
    raw_redis.zadd(stage.names.slots(NAME), {f"{gone} 1 x": 1, f"{gone} 2 y": 2, f"{fenced} 1 z": 3})
    raw_redis.set(stage.redis.keys.fenced(fenced), 1)
    assert store.free_dead(stage.redis, NAME) == 3
    assert [run.process for run, _ in store.runs(stage.redis, NAME)] == [OWNER.identity]
    assert store.free_dead(stage.redis, NAME) == 0


def test_runs_tell_the_job_and_since_when(stage, raw_redis):
    stage.enter("a", 3)
    ((run, since),) = store.runs(stage.redis, NAME)
    assert (run.jid, run.process) == ("a", OWNER.identity)
    assert abs(since - raw_redis.time()[0]) < 10


def test_a_class_with_nothing_left_is_forgotten(stage, raw_redis):
    run = stage.run_of("a")
    stage.enter("a", 1, run=run)
    stage.enter("b", 1)
    raw_redis.zadd(stage.names.resumed(NAME), {"old": 1})
    raw_redis.hset(stage.names.back(NAME), "old", payload("old"))
    store.forget(stage.redis, NAME)
    assert store.active(stage.redis) == [NAME]
    assert store.count_parked(stage.redis) == 1
    assert not raw_redis.exists(stage.names.resumed(NAME), stage.names.back(NAME))
    assert len(store.take_out(stage.redis, NAME, [payload("b"), payload("b")])) == 1
    stage.leave(run, 1)
    store.forget(stage.redis, NAME)
    assert (store.active(stage.redis), places.keys_of(stage.redis)) == ([], [])


def test_limits_that_workers_have_said_are_known_for_a_while(stage, raw_redis):
    store.declare(stage.redis, {}, {}, NOW)
    store.declare(stage.redis, {"A": 3, "B": -1, "C": 0}, {"Old A": "A"}, NOW)
    assert store.aliases(stage.redis, NOW + 3600) == {"Old A": "A"}
    assert store.declared(stage.redis, NOW + 100) == {"A": 3, "B": -1}
    assert store.declared(stage.redis, NOW + store.DECLARED_SECONDS + 1) == {}
    assert store.declared(stage.redis, NOW + 3600, store.SHOWN_SECONDS) == {"A": 3, "B": -1}
    assert store.declared(stage.redis, NOW + store.SHOWN_SECONDS + 1, store.SHOWN_SECONDS) == {}
    assert not raw_redis.exists(stage.names.declared)


# -------------------------------------------------------------------------------------- whatever happens

KINDS = ("push", "push", "claim", "claim", "end", "end", "late", "raise", "lower", "pause", "unpause", "look")
STEPS = st.lists(st.sampled_from(KINDS), max_size=60)


@bounds(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_happens_none_is_over_the_limit_or_lost_and_the_longest_waiting_goes_first(redis, raw_redis, steps):
    """A model: jobs are pushed and claimed in any order; limits change; slots are freed; some come too late."""
    raw_redis.flushdb()
    stage = Stage(redis, raw_redis)
    limit, number, paused = 2, 0, False
    running: list[Run] = []
    done: list[str] = []
    for step in [*steps, "unpause", *["look", "claim", "end"] * 40]:
        match step:
            case "push":
                raw_redis.lpush("queue:default", payload(f"j{number}"))
                number += 1
            case "claim" if raw_redis.llen("queue:default"):
                jid, job = stage.come()
                run = stage.run_of(jid)
                if stage.enter(jid, limit, run=run, job=job) is Entered.TAKEN:
                    running.append(run)
                    assert not paused
                    assert len(running) <= limit, "over the limit"
            case "end" if running:
                run = running.pop(0)
                [raw] = [raw for raw in raw_redis.lrange(stage.working, 0, -1) if decode(raw)["jid"] == run.jid]
                raw_redis.lrem(stage.working, 0, raw)
                done.append(run.jid)
                stage.leave(run, limit)
            case "late":
                for jid in raw_redis.zrange(stage.names.resumed(NAME), 0, -1):
                    raw_redis.zadd(stage.names.resumed(NAME), {jid: 1})
            case "raise":
                limit = max(limit, min(3, limit + 1))
            case "lower" if not running:
                limit = 1
            case "pause":
                store.set_paused(redis, NAME, paused=True)
                paused = True
            case "unpause":
                store.set_paused(redis, NAME, paused=False)
                paused = False
            case "look":
                stage.leave(None, limit)
    left = [*stage.parked, *stage.queued, *(run.jid for run in running)]
    assert sorted(done + left) == sorted(f"j{each}" for each in range(number)), "lost or doubled"
    assert not left, "all come to an end"
