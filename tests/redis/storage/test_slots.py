"""Slots and held jobs: one script decides, none is over the limit, none is lost, and the order is kept."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings as bounds, strategies as st

from offsider.core.errors import RedisRefused
from offsider.core.payload import decode, encode
from offsider.storage import owners, queues, slots
from offsider.storage.owners import Lists
from offsider.storage.slots import Candidate, GroupCounts, LimitedRun, Rate, SlotAnswer, SlotGroup
from offsider.storage.working import Owner, PrivateListEntry

NAME = "Hard"
OWNER = Owner("host:1:0123456789ab", "default")
NOW = 1_700_000_000.0


def payload(jid, queue="default"):
    return encode({"class": NAME, "args": [], "jid": jid, "queue": queue})


class Stage:
    """Jobs in the private list of one process, which ask for slots one after the other."""

    def __init__(self, redis, client):
        self.redis, self.client = redis, client
        self.keys = redis.keys
        self.working = redis.keys.working(OWNER.identity, OWNER.capsule, "default")
        self.numbers = iter(range(1_000_000))

    def run_of(self, jid, *groups):
        return LimitedRun(f"{OWNER.identity} {next(self.numbers)} {jid}", OWNER.identity, groups)

    def claim(self, jid, queue="default"):
        raw = payload(jid, queue)
        self.client.lpush(self.working, raw)
        return Candidate.of(raw, queue, queue, PrivateListEntry(OWNER, "default", raw))

    def enter(self, jid, *limits, run=None, again=False, job=None):
        groups = tuple(limit if isinstance(limit, SlotGroup) else SlotGroup(NAME, limit) for limit in limits)
        run = (run or self.run_of(jid))._replace(groups=groups)
        return slots.take(self.redis, run, job or self.claim(jid), again=again)[0]

    def leave(self, run, limit, name=NAME):
        if run is not None:
            slots.release(self.redis, run._replace(groups=(SlotGroup(NAME, limit),)))
        return slots.resume(self.redis, SlotGroup(name, limit), now_seconds=NOW)

    def come(self):
        """Claim the next job of the queue; returns its jid and the job to hold."""
        raw = self.client.rpop("queue:default")
        self.client.lpush(self.working, raw)
        return decode(raw)["jid"], Candidate.of(raw, "default", "default", PrivateListEntry(OWNER, "default", raw))

    @property
    def held(self):
        return [decode(raw)["jid"] for raw in slots.held(self.redis, NAME, 0, 1000)]

    @property
    def queued(self):
        return [decode(raw)["jid"] for raw in reversed(self.client.lrange("queue:default", 0, -1))]

    @property
    def in_use(self):
        return self.client.zcard(self.keys.slots(NAME))


@pytest.fixture
def stage(pool, raw_redis):
    return Stage(pool, raw_redis)


def test_slots_are_acquired_up_to_the_limit_and_the_next_job_is_held_in_one_step(stage, raw_redis):
    assert [stage.enter(jid, 2) for jid in "abcd"] == [
        SlotAnswer.TAKEN,
        SlotAnswer.TAKEN,
        SlotAnswer.HELD,
        SlotAnswer.HELD,
    ]
    assert (stage.in_use, stage.held) == (2, ["c", "d"])
    assert [decode(raw)["jid"] for raw in raw_redis.lrange(stage.working, 0, -1)] == ["b", "a"]
    assert queues.extension_list_lengths(stage.redis) == {stage.keys.held(NAME): 2}


def test_a_resumed_job_moves_to_the_head_of_its_queue_and_its_latency_restarts(stage, raw_redis):
    run = stage.run_of("a")
    stage.enter("a", 1, run=run)
    stage.enter("b", 1)
    raw_redis.lpush("queue:default", payload("waiting"))
    stage.leave(run, 1)
    assert stage.queued == ["b", "waiting"]
    assert decode(raw_redis.lindex("queue:default", -1))["enqueued_at"] == NOW * 1000
    assert raw_redis.smembers("queues") == {b"default"}
    assert queues.extension_lists(stage.redis) == []


def test_a_resumed_job_that_is_claimed_late_is_held_at_the_head(stage, raw_redis):
    run = stage.run_of("a")
    stage.enter("a", 1, run=run)
    for jid in "bc":
        stage.enter(jid, 1)
    stage.leave(run, 1)
    late, job = stage.come()
    raw_redis.zadd(stage.keys.resumed(NAME), {late: 1})  # its time is over, and it is in its queue no more
    assert stage.leave(None, 1) == 1
    second, other = stage.come()
    assert stage.enter(second, 1, job=other) is SlotAnswer.TAKEN
    stage.enter("d", 1)
    assert stage.enter(late, 1, job=job) is SlotAnswer.HELD
    assert stage.held == ["b", "d"]


def test_no_job_is_resumed_into_a_queue_in_which_one_still_waits(stage, raw_redis):
    """It would come to stand before it; those of other queues go on."""
    run = stage.run_of("a")
    stage.enter("a", 1, run=run)
    for jid in "bc":
        stage.enter(jid, 1)
    stage.enter("other", 1, job=stage.claim("other", "elsewhere"))
    stage.leave(run, 1)
    raw_redis.zadd(stage.keys.resumed(NAME), {"b": 1})  # its time is over
    assert stage.leave(None, 1) == 1
    assert (stage.queued, stage.held, raw_redis.llen("queue:elsewhere")) == (["b"], ["c"], 1)
    raw_redis.zadd(stage.keys.resumed(NAME), {"other": 1})
    assert stage.leave(None, 1) == 0
    jid, job = stage.come()
    assert stage.enter(jid, 1, job=job) is SlotAnswer.TAKEN
    assert raw_redis.hkeys(stage.keys.resumed_payloads(NAME)) == [b"other"]


def test_at_a_freed_slot_nothing_is_resumed_while_a_resumed_job_has_one_reserved(stage):
    run = stage.run_of("a")
    stage.enter("a", 2, run=run)
    for jid in "bc":
        stage.enter(jid, 2)
    stage.enter("d", 2, job=stage.claim("d", "elsewhere"))
    stage.leave(run, 2)
    assert stage.queued == ["c"]
    group = SlotGroup(NAME, 3)
    assert slots.resume(stage.redis, group, now_seconds=NOW, at_once=True) == 0
    assert slots.resume(stage.redis, group, now_seconds=NOW) == 1


def test_a_look_at_held_jobs_of_paused_queues_is_bounded(stage, raw_redis, monkeypatch):
    monkeypatch.setattr(slots, "MAX_SKIPPED", 2)
    monkeypatch.setattr(slots, "BATCH", 1)
    run = stage.run_of("a")
    stage.enter("a", 1, run=run)
    for jid in "bc":
        stage.enter(jid, 1)
    stage.enter("d", 1, job=stage.claim("d", "elsewhere"))
    raw_redis.sadd("paused", "default")
    assert stage.leave(run, 1) == 0
    assert stage.held == ["b", "c", "d"]


def test_while_jobs_are_held_no_job_overtakes_them(stage):
    run = stage.run_of("a")
    stage.enter("a", 1, run=run)
    stage.enter("b", 1)
    stage.client.zrem(stage.keys.slots(NAME), run.member)
    assert stage.enter("c", 1) is SlotAnswer.HELD_BEHIND
    assert stage.held == ["b", "c"]


def test_a_job_takes_a_slot_in_each_group_or_waits_in_the_first_full_one(stage):
    shared = SlotGroup("urgency=low", 2)
    runs = [stage.run_of(jid) for jid in "ab"]
    assert [stage.enter(run.jid, 5, shared, run=run) for run in runs] == [SlotAnswer.TAKEN] * 2
    assert stage.enter("c", 5, shared) is SlotAnswer.HELD
    assert (stage.in_use, stage.held) == (2, [])
    assert [decode(raw)["jid"] for raw in slots.held(stage.redis, shared.name, 0, 9)] == ["c"]
    slots.release(stage.redis, runs[0]._replace(groups=(SlotGroup(NAME, 5), shared)))
    assert (stage.in_use, slots.counts(stage.redis, [shared.name])) == (1, {shared.name: GroupCounts(1, 0, 1)})
    assert slots.resume(stage.redis, shared, now_seconds=NOW) == 1
    jid, job = stage.come()
    assert (jid, stage.enter(jid, 1, shared, job=job)) == ("c", SlotAnswer.HELD), "its class is full now"
    assert stage.held == ["c"]
    assert stage.leave(runs[1], 1) == 1
    jid, job = stage.come()
    assert stage.enter(jid, 1, shared, job=job) is SlotAnswer.TAKEN


def test_a_rate_allows_so_many_starts_in_its_window(stage, raw_redis):
    group = SlotGroup(NAME, 0, Rate(2, 60_000))
    assert [stage.enter(jid, group) for jid in "abc"] == [SlotAnswer.TAKEN, SlotAnswer.TAKEN, SlotAnswer.HELD]
    assert slots.resume(stage.redis, group, now_seconds=NOW) == 0
    assert 50 < slots.forget(stage.redis, group) <= 60
    raw_redis.zremrangebyrank(stage.keys.starts(NAME), 0, 0)
    assert slots.resume(stage.redis, group, now_seconds=NOW) == 1


def test_jobs_of_a_full_group_are_held_in_one_step(stage, raw_redis):
    jobs = [stage.claim(jid) for jid in "abc"]
    raw_redis.lrem(stage.working, 1, jobs[1].raw)
    batch = [(job, job.entry) for job in jobs]
    assert slots.hold(stage.redis, OWNER.identity, SlotGroup(NAME, -1), batch) == (2, False)
    assert (stage.held, raw_redis.llen(stage.working)) == (["a", "c"], 0), "another process has b"
    assert slots.due_groups(stage.redis).names == [NAME]
    assert slots.hold(stage.redis, OWNER.identity, SlotGroup(NAME, 1), batch) == (0, True)
    raw_redis.set(stage.keys.fenced(OWNER.identity), 1)
    job = stage.claim("d")
    assert slots.hold(stage.redis, OWNER.identity, SlotGroup(NAME, 1), [(job, job.entry)]) == (0, False)
    assert raw_redis.llen(stage.working) == 1


def test_a_job_that_is_resumed_later_does_not_overtake_one_that_waits_in_the_same_queue(stage):
    for jid in "abcde":
        stage.enter(jid, -1)
    assert stage.leave(None, 3) == 3
    assert stage.queued == ["a", "b", "c"]
    started = []
    for _ in range(2):
        jid, job = stage.come()
        started.append(run := stage.run_of(jid))
        assert stage.enter(jid, 3, job=job, run=run) is SlotAnswer.TAKEN
    assert stage.leave(started[0], 3) == 0, "c waits in the queue"
    jid, job = stage.come()
    assert (jid, stage.enter(jid, 3, job=job)) == ("c", SlotAnswer.TAKEN_LAST), "its start resumes the next one"
    assert stage.leave(None, 3) == 1
    assert stage.queued == ["d"]


def test_without_a_limit_all_held_jobs_return_to_the_tails_of_their_queues(stage, raw_redis):
    for number in range(250):
        stage.enter(f"j{number}", -1)
    raw_redis.lpush("queue:default", payload("waiting"))
    assert stage.leave(None, 0) == 250
    assert stage.queued == ["waiting", *(f"j{number}" for number in range(250))], "in their order"
    assert stage.held == []


# ----------------------------------------------------------------------------- asked once more


@pytest.mark.parametrize("limit, entered", [(1, SlotAnswer.TAKEN), (-1, SlotAnswer.HELD)])
def test_a_repeated_request_returns_the_same_and_changes_nothing(stage, raw_redis, limit, entered):
    run, job = stage.run_of("a"), stage.claim("a")
    answers = [stage.enter("a", limit, run=run, job=job, again=again) for again in (False, True, True)]
    assert answers == [entered] * 3
    assert (stage.in_use, len(stage.held)) == ((1, 0) if entered is SlotAnswer.TAKEN else (0, 1))


def test_a_repeated_request_for_a_job_resumed_since_returns_lost(stage, raw_redis):
    run, job = stage.run_of("a"), stage.claim("a")
    stage.enter("a", -1, run=run, job=job)
    stage.leave(None, 1)
    assert stage.enter("a", 1, run=run, job=job, again=True) is SlotAnswer.LOST


def test_a_job_taken_by_another_process_is_not_held(stage, raw_redis):
    job = stage.claim("a")
    raw_redis.delete(stage.working)
    assert stage.enter("a", -1, job=job) is SlotAnswer.LOST
    assert stage.held == []


def test_a_job_in_no_private_list_is_held_once(stage):
    raw = payload("a")
    run, job = stage.run_of("a"), Candidate(raw, raw, None)
    assert [stage.enter("a", -1, run=run, job=job, again=again) for again in (False, True)] == [SlotAnswer.HELD] * 2
    assert stage.held == ["a"]


def test_a_job_in_no_private_list_that_was_resumed_since_runs_once(stage, raw_redis):
    raw = payload("a")
    run, job = stage.run_of("a"), Candidate(raw, raw, None)
    stage.enter("a", -1, run=run, job=job)
    stage.leave(None, 1)
    assert stage.enter("a", 5, run=run, job=job, again=True) is SlotAnswer.HELD
    assert stage.in_use == 0
    assert 0 < raw_redis.ttl(stage.keys.held_run(run.member)) <= 600


def test_equal_jobs_are_resumed_as_often_as_they_are_held(stage, raw_redis, monkeypatch):
    """Another process may resume one of them, or a user delete it, after they were read."""
    for _ in range(2):
        stage.enter("a", -1)
    run = stage.redis.run

    def remove_one_first(script, *args):
        if script is slots.RESUME_HELD:
            raw_redis.lrem(stage.keys.held(NAME), 1, payload("a"))
        return run(script, *args)

    monkeypatch.setattr(stage.redis, "run", remove_one_first)
    assert stage.leave(None, 0) == 1
    assert (stage.queued, stage.held) == (["a"], [])


# ------------------------------------------------------------------------------------- obstacles


def test_jobs_of_a_paused_queue_stay_held_and_do_not_block_others(stage, raw_redis):
    for number in range(30):
        stage.enter(f"p{number}", -1, job=stage.claim(f"p{number}", "paused"))
    stage.enter("a", -1)
    raw_redis.sadd("paused", "paused")
    assert stage.leave(None, 3) == 1
    assert stage.queued == ["a"]
    assert len(stage.held) == 30
    raw_redis.srem("paused", "paused")
    assert stage.leave(None, 3) == 2
    assert [decode(raw)["jid"] for raw in raw_redis.lrange("queue:paused", 0, -1)] == ["p1", "p0"], "p0 is the next"


def test_after_skipped_jobs_no_more_are_resumed_than_slots_are_free(stage, raw_redis):
    stage.enter("p", -1, job=stage.claim("p", "paused"))
    for jid in "abc":
        stage.enter(jid, -1)
    raw_redis.sadd("paused", "paused")
    assert stage.leave(None, 1) == 1
    assert (stage.queued, stage.held) == (["a"], ["p", "b", "c"])


def test_bytes_that_are_not_a_job_stay_held_and_do_not_block_others(stage, raw_redis):
    stage.enter("a", -1)
    raw_redis.rpush(stage.keys.held(NAME), b"no job")
    assert stage.leave(None, 3) == 1
    assert raw_redis.lrange(stage.keys.held(NAME), 0, -1) == [b"no job"]


@pytest.mark.parametrize("wrong", ["held", "places"])
def test_a_destination_of_the_wrong_type_keeps_the_job(stage, raw_redis, wrong):
    key = stage.keys.held(NAME) if wrong == "held" else stage.redis.keys.places
    raw_redis.set(key, "wrong")
    with pytest.raises(RedisRefused):
        stage.enter("a", -1)
    assert raw_redis.llen(stage.working) == 1


def test_a_queue_of_the_wrong_type_leaves_the_job_held(stage, raw_redis):
    stage.enter("a", -1)
    raw_redis.set("queue:default", "wrong")
    with pytest.raises(RedisRefused):
        stage.leave(None, 1)
    assert stage.held == ["a"]


def test_a_full_server_holds_resumes_and_frees(stage, raw_redis):
    """Draining it frees memory (allow-oom)."""
    run = stage.run_of("a")
    jobs = [(jid, stage.claim(jid)) for jid in "ab"]
    raw_redis.config_set("maxmemory", 1)
    try:
        assert stage.enter("a", 1, run=run, job=jobs[0][1]) is SlotAnswer.TAKEN
        assert stage.enter("b", 1, job=jobs[1][1]) is SlotAnswer.HELD
        assert stage.leave(run, 1) == 1
    finally:
        raw_redis.config_set("maxmemory", 0)
    assert stage.queued == ["b"]


# ----------------------------------------------------------------------------------- who is gone


def test_only_slots_of_dead_processes_are_freed(stage, raw_redis):
    owners.beat(stage.redis, Lists(OWNER.identity, {"default": ("default",)}), 60_000)
    stage.enter("a", 3)
    gone, fenced = "host:2:0123456789ab", "host:3:0123456789ab"
    owners.beat(stage.redis, Lists(fenced, {"default": ("default",)}), 60_000)
    raw_redis.zadd(stage.keys.slots(NAME), {f"{gone} 1 x": 1, f"{gone} 2 y": 2, f"{fenced} 1 z": 3})
    raw_redis.set(stage.redis.keys.fenced(fenced), 1)
    assert slots.free_dead(stage.redis, NAME) == 3
    assert [holder.process for holder in slots.holders(stage.redis, NAME)] == [OWNER.identity]
    assert slots.free_dead(stage.redis, NAME) == 0


def test_a_class_without_slots_and_held_jobs_is_deleted(stage, raw_redis):
    run = stage.run_of("a")
    stage.enter("a", 1, run=run)
    stage.enter("b", 1)
    raw_redis.zadd(stage.keys.resumed(NAME), {"old": 1})
    raw_redis.hset(stage.keys.resumed_payloads(NAME), "old", payload("old"))
    slots.forget(stage.redis, SlotGroup(NAME, 1))
    assert slots.groups(stage.redis) == [NAME]
    assert raw_redis.llen(stage.keys.held(NAME)) == 1
    assert not raw_redis.exists(stage.keys.resumed(NAME), stage.keys.resumed_payloads(NAME))
    assert raw_redis.lrem(stage.keys.held(NAME), 1, payload("b")) == 1
    stage.leave(run, 1)
    slots.forget(stage.redis, SlotGroup(NAME, 1))
    assert (slots.groups(stage.redis), queues.extension_lists(stage.redis)) == ([], [])


def test_published_limits_expire(stage, raw_redis):
    slots.declare(stage.redis, {}, NOW)
    slots.declare(stage.redis, {"A": (3, Rate(1, 2000)), "B": (-1, Rate()), "C": (0, Rate())}, NOW)
    found = {"A": (3, Rate(1, 2000)), "B": (-1, Rate())}
    assert slots.declared(stage.redis, NOW + 100) == found
    assert slots.declared(stage.redis, NOW + slots.DECLARED_SECONDS + 1) == {}
    assert slots.declared(stage.redis, NOW + 3600, slots.SHOWN_SECONDS) == found
    raw_redis.hset(stage.keys.limits, "Odd", "many")
    assert slots.declared(stage.redis, NOW + slots.SHOWN_SECONDS + 1, slots.SHOWN_SECONDS) == {}
    assert not raw_redis.exists(stage.keys.limits)


# ----------------------------------------------------------------------------------- any sequence

KINDS = ("push", "push", "claim", "claim", "end", "end", "late", "raise", "lower", "pause", "unpause", "look")
TAKEN = (SlotAnswer.TAKEN, SlotAnswer.TAKEN_LAST)
STEPS = st.lists(st.sampled_from(KINDS), max_size=60)


@bounds(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_the_limit_holds_no_job_is_lost_and_order_is_kept_after_any_sequence(pool, raw_redis, steps):
    """A model: jobs are pushed and claimed in any order; limits change; slots are freed; some come too late."""
    raw_redis.flushdb()
    stage = Stage(pool, raw_redis)
    limit, number, paused = 2, 0, False
    running: list[LimitedRun] = []
    done: list[str] = []
    for step in [*steps, "unpause", *["look", "claim", "end"] * 40]:
        match step:
            case "push":
                raw_redis.lpush("queue:default", payload(f"j{number}"))
                number += 1
            case "claim" if raw_redis.llen("queue:default"):
                jid, job = stage.come()
                run = stage.run_of(jid)
                if stage.enter(jid, -1 if paused else limit, run=run, job=job) in TAKEN:
                    running.append(run)
                    assert not paused
                    assert len(running) <= limit, "over the limit"
            case "end" if running:
                run = running.pop(0)
                [raw] = [raw for raw in raw_redis.lrange(stage.working, 0, -1) if decode(raw)["jid"] == run.jid]
                raw_redis.lrem(stage.working, 0, raw)
                done.append(run.jid)
                stage.leave(run, -1 if paused else limit)
            case "late":
                for jid in raw_redis.zrange(stage.keys.resumed(NAME), 0, -1):
                    raw_redis.zadd(stage.keys.resumed(NAME), {jid: 1})
            case "raise":
                limit = max(limit, min(3, limit + 1))
            case "lower" if not running:
                limit = 1
            case "pause" | "unpause":
                paused = step == "pause"
            case "look":
                stage.leave(None, -1 if paused else limit)
    left = [*stage.held, *stage.queued, *(run.jid for run in running)]
    assert sorted(done + left) == sorted(f"j{each}" for each in range(number)), "lost or doubled"
    assert not left, "all come to an end"
