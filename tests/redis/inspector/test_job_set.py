"""The schedule, the retry set and the dead set: looking, and acting on one job at a time, which compares first."""

from __future__ import annotations

import math
import threading
from itertools import count, islice
from unittest.mock import ANY

import pytest
import redis as redis_py

from offsider.config.config import Config
from offsider.core.errors import MalformedPayload, RedisRefused
from offsider.core.payload import decode, read_stamp
from offsider.inspector import (
    DeadSet,
    JobFilter,
    JobRecord,
    Quarantine,
    Queue,
    RetrySet,
    ScheduledSet,
)
from tests.middleware import returning
from tests.redis.inspector.payloads import JID, LINES, failed_job, job, through
from tests.snapshot import snapshot

SETS = [ScheduledSet, RetrySet, DeadSet]
FUTURE = 4_102_444_800.25


@pytest.fixture(params=SETS, ids=lambda kind: kind.name)
def any_set(request, config):
    return request.param(config)


@pytest.fixture
def deaths(config):
    """The arguments passed to the death handlers."""
    reported: list = []
    config.death_handlers.append(lambda payload, error: reported.append((payload["jid"], repr(error))))
    return reported


def only(job_set):
    (entry,) = job_set
    return entry


# ------------------------------------------------------------------------------------- looking


def test_iteration_starts_with_the_earliest_job_and_its_time(any_set, raw_redis):
    raw_redis.zadd(any_set.name, {job(2): FUTURE, job(1): 12.5})
    assert len(any_set) == 2
    assert [(entry.args, entry.at, entry.score) for entry in any_set] == [([1], 12.5, 12.5), ([2], FUTURE, FUTURE)]


@pytest.mark.parametrize("keep", [1, 3])
def test_deleting_while_iterating_misses_no_job_of_the_same_time(any_set, raw_redis, keep):
    raw_redis.zadd(any_set.name, {job(n): 5.0 for n in range(120)})
    seen = []
    for entry in any_set:
        seen.append(entry.args[0])
        if entry.args[0] % keep == 0:
            assert entry.delete()
    assert sorted(seen) == list(range(120))
    assert len(any_set) == 120 - len(range(0, 120, keep))


def test_concurrent_removal_of_all_jobs_ends_the_scan(any_set, raw_redis):
    raw_redis.zadd(any_set.name, {job(n): 5.0 for n in range(120)})
    seen = []
    for entry in any_set:
        seen.append(entry)
        raw_redis.delete(any_set.name)
    assert len(seen) == 50


@pytest.mark.parametrize("version", [6, 7, 8])
def test_a_job_of_any_client_is_found_by_its_jid(any_set, raw_redis, version):
    raw_redis.zadd(any_set.name, {job(n): n for n in range(60)} | {failed_job(version): 7.5})
    entry = any_set.find_job(JID)
    assert (entry.name, entry.queue, entry.score) == ("HardJob", "low", 7.5)
    assert entry.error_backtrace == LINES
    assert any_set.find_job("f" * 24) is None


def test_a_jid_is_not_a_pattern_and_an_argument_is_not_a_jid(any_set, raw_redis):
    raw_redis.zadd(any_set.name, {b'{"class":"X","args":["*"],"jid":"a[b]*?^c"}': 1, job(1): 2})
    assert any_set.find_job("a[b]*?^c").jid == "a[b]*?^c"
    assert any_set.find_job("*") is None


# -------------------------------------------------------------------------------------- retry


@pytest.mark.parametrize("version", [6, 7, 8])
@pytest.mark.parametrize("kind", [RetrySet, DeadSet], ids=lambda kind: kind.name)
def test_retrying_enqueues_the_job_and_does_not_count_as_an_attempt(config, raw_redis, kind, version):
    raw_redis.zadd(kind.name, {failed_job(version): FUTURE})
    config.redis.wire_version = version
    before = config.clock.now()
    assert only(kind(config)).retry()
    stored = snapshot(raw_redis)
    (raw,) = stored.pop("queue:low")
    assert stored == {"queues": {b"low"}}
    was, is_now = decode(failed_job(version)), decode(raw)
    assert is_now.pop("retry_count") == was.pop("retry_count") - 1
    written = is_now.pop("enqueued_at")
    assert type(written) is type(was.pop("enqueued_at"))
    assert read_stamp(written) >= before - 0.001
    assert is_now == was


def test_retrying_a_job_that_never_failed_adds_no_retry_count(config, raw_redis):
    raw_redis.zadd("dead", {job(1): 1})
    assert only(DeadSet(config)).retry()
    assert "retry_count" not in decode(raw_redis.lindex("queue:default", 0))


def test_a_job_that_has_moved_is_left_alone(any_set, raw_redis, removed, deaths):
    raw_redis.zadd(any_set.name, {failed_job(8): FUTURE})
    entry = only(any_set)
    raw_redis.delete(any_set.name)
    assert [entry.retry(), entry.add_to_queue(), entry.kill(), entry.delete()] == [False] * 4
    assert snapshot(raw_redis) == {}
    assert removed == deaths == []


def test_client_middleware_receives_the_reason_and_may_stop_the_job(config, raw_redis, removed):
    reasons = []

    def stop_three(push):
        reasons.append(push.reason)
        return None if push.payload["args"] == [3] else (yield)

    config.client_middleware.add(stop_three)
    for number, kind in enumerate(SETS, start=1):
        raw_redis.zadd(kind.name, {job(number): FUTURE})
        assert only(kind(config)).retry()
    assert reasons == ["schedule", "retry", "retry"]
    assert [decode(raw)["args"] for raw in raw_redis.lrange("queue:default", 0, -1)] == [[2], [1]]
    assert raw_redis.zcard("dead") == 0  # stopped, as it would be at any push
    assert [(news.raw, news.where, news.how) for news in removed] == [(job(3), "dead", "delete")]


def test_a_queue_of_the_wrong_type_leaves_the_job_in_place(config, raw_redis):
    raw_redis.set("queue:low", "wrong")
    raw_redis.zadd("retry", {failed_job(8): FUTURE})
    with pytest.raises(RedisRefused, match="queue:low is not a list and cannot store jobs; the job stays in retry"):
        only(RetrySet(config)).retry()
    assert raw_redis.zscore("retry", failed_job(8)) == FUTURE


# ------------------------------------------------------------------------------- add to queue


def test_a_scheduled_job_is_added_to_its_queue_before_it_is_due(config, raw_redis):
    raw_redis.zadd("schedule", {job(1): FUTURE})
    assert only(ScheduledSet(config)).add_to_queue()
    stored = snapshot(raw_redis)
    (raw,) = stored.pop("queue:default")
    assert stored == {"queues": {b"default"}}
    assert {**decode(raw), "enqueued_at": 0, "retry": True} == {**decode(job(1)), "enqueued_at": 0, "retry": True}


def test_adding_a_failed_job_to_its_queue_keeps_its_count(config, raw_redis):
    raw_redis.zadd("retry", {failed_job(8): FUTURE})
    assert only(RetrySet(config)).add_to_queue()
    assert decode(raw_redis.lindex("queue:low", 0))["retry_count"] == 2


# --------------------------------------------------------------------------------------- kill


@pytest.mark.parametrize("kind", [ScheduledSet, RetrySet], ids=lambda kind: kind.name)
def test_a_killed_job_is_dead_unchanged_and_all_listeners_are_notified(config, raw_redis, kind, removed, deaths):
    raw_redis.zadd(kind.name, {failed_job(7): FUTURE})
    assert only(kind(config)).kill("the customer is gone")
    stored = snapshot(raw_redis)
    assert set(stored) == {"dead"}
    assert stored["dead"] == {failed_job(7): pytest.approx(config.clock.now(), abs=5)}
    assert deaths == [(JID, "JobKilled('the customer is gone')")]
    assert [(event.raw, event.where, event.how) for event in removed] == [(failed_job(7), kind.name, "kill")]


def test_a_dead_job_that_is_killed_again_stays_with_a_new_time(config, raw_redis):
    raw_redis.zadd("dead", {job(1): config.clock.now() - 1000})
    assert only(DeadSet(config)).kill()
    assert snapshot(raw_redis) == {"dead": {job(1): pytest.approx(config.clock.now(), abs=5)}}


def test_a_broken_death_handler_is_reported_and_the_others_are_called(config, raw_redis):
    reports, reported = [], []

    def broken(payload, error):
        raise LookupError("broken")

    config.error_handlers.append(lambda error, context: reports.append((str(error), context["context"])))
    config.death_handlers.append(broken)
    config.death_handlers.append(lambda payload, error: reported.append(payload["jid"]))
    raw_redis.zadd("retry", {failed_job(8): FUTURE})
    assert only(RetrySet(config)).kill()
    assert reports == [("broken", "calling a death handler")]
    assert reported == [JID]


def test_killing_cuts_the_dead_set_to_its_limits(config, raw_redis):
    config.worker.dead_max_jobs = 3
    now = config.clock.now()
    raw_redis.zadd("dead", {job(n): now - 100 + n for n in range(5)})
    raw_redis.zadd("retry", {job(9): FUTURE})
    assert only(RetrySet(config)).kill()
    assert [entry.args for entry in DeadSet(config)] == [[4], [9]]


# ---------------------------------------------------------------------------- delete and clear


def test_deleting_removes_one_job(any_set, raw_redis, removed, deaths):
    raw_redis.zadd(any_set.name, {job(1): 1, job(2): 2})
    first, _ = any_set
    assert first.delete()
    assert not first.delete()
    assert snapshot(raw_redis) == {any_set.name: {job(2): 2.0}}
    assert [(event.raw, event.where, event.how) for event in removed] == [(job(1), any_set.name, "delete")]
    assert deaths == []


# --------------------------------------------------------------------------------- a full server


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_a_full_server_is_made_room_on_by_every_action(make_server, kind):
    """Everything that frees memory works on a full server, and so do pauses and signals."""
    server, config = make_server(kind=kind), Config()
    config.redis.url = server.url
    with redis_py.Redis.from_url(server.url) as client:
        client.zadd("retry", {job(n): n for n in range(8)})
        client.zadd("dead", {job(100 + n): FUTURE + n for n in range(3)})
        client.lpush("queue:low", *map(job, range(4)))
        client.sadd("queues", "low")
        client.config_set("maxmemory", 1)
        with pytest.raises(redis_py.exceptions.OutOfMemoryError):
            client.lpush("queue:low", "more")
        jobs, queue = RetrySet(config), Queue("low", config)
        queue.pause()
        assert queue.paused
        queue.unpause()
        one = jobs.page(0, 1)[0]
        assert one.reschedule(FUTURE)
        assert one.delete()
        assert jobs.page(0, 1)[0].retry()
        assert jobs.page(0, 1)[0].kill()
        assert jobs.quarantine_all(JobFilter(argument="3")) == 1
        assert jobs.delete_all(JobFilter(argument="4")) == 1
        assert jobs.clear() == 3
        assert DeadSet(config).delete_all() == 4
        assert queue.quarantine(JobRecord(job(1)))
        assert queue.delete_all(JobFilter(argument="2")) == 1
        assert queue.clear() == 2
        assert Quarantine(config).delete_all() == 2
        left = snapshot(client)
        assert left.pop("offsider:controls:version")
        assert left == {"queues": {b"default"}, "queue:default": [ANY]}


# -------------------------------------------------------------------------------- no job at all


def test_invalid_bytes_can_be_killed_and_deleted_but_not_run(any_set, raw_redis, removed, deaths):
    raw_redis.zadd(any_set.name, {b"\xff no job": FUTURE})
    entry = only(any_set)
    assert entry.malformed
    for run in (entry.retry, entry.add_to_queue):
        with pytest.raises(MalformedPayload):
            run()
    assert len(any_set) == 1
    assert entry.kill()
    assert deaths == []  # no job can have died
    dead = only(DeadSet(any_set._server))
    assert (dead.malformed, dead.unwrapped, dead.error_class) == (True, b"\xff no job", "offsider.MalformedPayload")
    assert DeadSet(any_set._server).entry(dead.key) is not None
    with pytest.raises(MalformedPayload):
        dead.retry()
    assert dead.kill()  # counts as dead from now on, and is otherwise unchanged
    assert only(DeadSet(any_set._server)).raw == dead.raw
    assert only(DeadSet(any_set._server)).delete()
    assert snapshot(raw_redis) == {}
    assert [event.how for event in removed] == ["kill", "kill", "delete"]


def test_many_invalid_jobs_are_killed_into_wrappers(any_set, raw_redis):
    raw_redis.zadd(any_set.name, {b"[1,2]": FUTURE, b"5": FUTURE + 1})
    assert any_set.kill_all() == 2
    dead = DeadSet(any_set._server)
    assert {entry.unwrapped for entry in dead} == {b"[1,2]", b"5"}
    assert {entry.key_part for entry in dead} == {entry.jid for entry in dead}


# ---------------------------------------------------------------------------- pages, keys, chunks


def test_pages_begin_at_either_end(any_set, raw_redis):
    raw_redis.zadd(any_set.name, {job(n): n for n in range(10)})
    assert [entry.score for entry in any_set.page(0, 3)] == [0, 1, 2]
    assert [entry.score for entry in any_set.page(8, 3, newest_first=True)] == [1, 0]
    assert any_set.page(10, 3) == []


def test_a_job_is_found_by_its_score_and_its_id(any_set, raw_redis):
    raw_redis.zadd(any_set.name, {job(1): 12.5, job(2): 12.5, job(3): FUTURE})
    assert sorted(entry.args[0] for entry in any_set.fetch(12.5)) == [1, 2]
    assert [entry.args for entry in any_set.fetch(12.5, f"{2:024x}")] == [[2]]
    assert any_set.fetch(12.5, "nobody") == any_set.fetch(13) == any_set.fetch(math.nan) == []


@pytest.mark.parametrize("score", [12.5, FUTURE, 1795216790.652, 0.1 + 0.2, -1.0, math.inf])
def test_a_key_finds_its_job_again(any_set, raw_redis, score):
    raw_redis.zadd(any_set.name, {job(1): score, b"\xff no job": score, b"\xff another": score})
    keys = {entry.key for entry in any_set}
    assert len(keys) == 3
    assert {any_set.entry(key).raw for key in keys} == {job(1), b"\xff no job", b"\xff another"}
    assert any_set.entry(f"{score!r}|{1:024x}").raw == job(1)  # as Sidekiq writes it


def twins(count):
    """Different jobs of one jid."""
    return [b'{"class":"HardJob","args":[%d],"queue":"default","jid":"%s"}' % (n, b"a" * 24) for n in range(count)]


def test_jobs_with_equal_score_and_jid_are_distinguished(any_set, raw_redis):
    one, other = twins(2)
    raw_redis.zadd(any_set.name, {one: 12.5, other: 12.5})
    assert any_set.entry(f"12.5|{'a' * 24}") is None
    entries = [any_set.entry(entry.key) for entry in any_set]
    assert [entry.raw for entry in entries] == [one, other]
    assert entries[1].delete()
    assert snapshot(raw_redis) == {any_set.name: {one: 12.5}}
    assert any_set.entry(f"12.5|{'a' * 24}").raw == one


@pytest.mark.parametrize("how", ["retry_all", "enqueue_all", "kill_all", "quarantine_all", "delete_all"])
def test_a_bulk_action_applies_to_the_counted_jobs_if_jobs_share_a_jid(config, raw_redis, how):
    wanted, jobs = JobFilter(name="HardJob"), RetrySet(config)
    raw_redis.zadd("retry", {raw: n for n, raw in enumerate(twins(3))})
    assert len(jobs.count(wanted)) == 3
    assert getattr(jobs, how)(wanted) == 3
    assert len(jobs) == 0


@pytest.mark.parametrize("key", ["", "|", "x|y", "1", "nan|x", "1e999|x", "12.5|nobody", "9" * 5000 + "|x", "1\x002|x"])
def test_an_invalid_key_finds_nothing(any_set, raw_redis, key):
    raw_redis.zadd(any_set.name, {job(1): 12.5})
    assert any_set.entry(key) is None


# ------------------------------------------------------------------------------------ many at once


def test_all_are_retried_with_a_try_that_does_not_count(config, raw_redis):
    raw_redis.zadd("retry", {job(n): n for n in range(250)} | {failed_job(8): FUTURE, b"no job": 5})
    assert RetrySet(config).retry_all() == 251
    assert raw_redis.zrange("retry", 0, -1) == [b"no job"]
    assert raw_redis.llen("queue:default") == 250
    assert decode(raw_redis.lindex("queue:low", 0))["retry_count"] == 1


def test_all_scheduled_jobs_are_added_to_their_queues_in_their_order(config, raw_redis):
    raw_redis.zadd("schedule", {job(n): n for n in range(250)})
    assert ScheduledSet(config).enqueue_all() == 250
    assert [decode(raw)["args"] for raw in reversed(raw_redis.lrange("queue:default", 0, -1))] == [
        [n] for n in range(250)
    ]


def test_only_those_that_fit_are_moved(config, raw_redis):
    raw_redis.zadd("dead", {job(n): n for n in range(250)} | {b'{"class":"Other","args":[1]}': 1})
    assert DeadSet(config).retry_all(JobFilter(name="HardJob", argument="7")) == 1
    assert DeadSet(config).delete_all(JobFilter(name="HardJob")) == 249
    assert snapshot(raw_redis)["dead"] == {b'{"class":"Other","args":[1]}': 1.0}


def test_a_job_that_fails_again_at_once_is_retried_once(config, raw_redis):
    """A worker beside may be quicker than who retries a whole set."""
    config.client_middleware.add(lambda push: raw_redis.zadd("retry", {again(push): FUTURE}) and (yield))

    def again(push):
        return b'{"class":"HardJob","args":[],"queue":"default","jid":"%s","n":%d,"enqueued_at":%d}' % (
            push.payload["jid"].encode(),
            raw_redis.incr("n"),
            config.clock.now() * 1000,
        )

    raw_redis.zadd("retry", {job(n): n for n in range(150)})
    assert RetrySet(config).retry_all() == 150
    assert (raw_redis.llen("queue:default"), raw_redis.zcard("retry")) == (150, 150)


def test_one_job_that_cannot_be_moved_keeps_no_other_back(config, raw_redis):
    reports = []
    config.error_handlers.append(lambda error, context: reports.append((str(error), context["context"])))

    def picky(push):
        if push.payload["args"] == [1]:
            raise LookupError("not this one")
        return None if push.payload["args"] == [2] else (yield)

    config.client_middleware.add(picky)
    raw_redis.set("queue:low", "wrong")
    raw_redis.zadd("retry", {job(n): n for n in range(4)} | {failed_job(8): FUTURE})
    assert RetrySet(config).retry_all() == 3  # the stopped one has left the set as well
    assert sorted(entry.args for entry in RetrySet(config)) == [[1], [1, "é"]]
    assert reports == [("not this one", "moving a job of retry")]


def test_a_batch_of_nothing_but_stopped_jobs_moves_nothing(config, raw_redis):
    config.client_middleware.add(returning())
    raw_redis.zadd("retry", {job(n): n for n in range(3)})
    assert RetrySet(config).retry_all() == 3
    assert snapshot(raw_redis) == {}


def test_all_jobs_are_killed_and_all_listeners_are_notified(config, raw_redis, removed, deaths):
    raw_redis.zadd("retry", {job(n): n for n in range(120)} | {b"no job": 5})
    assert RetrySet(config).kill_all(JobFilter(text="args")) == 120
    assert raw_redis.zrange("retry", 0, -1) == [b"no job"]
    assert raw_redis.zcard("dead") == len(removed) == len(deaths) == 120
    assert {event.how for event in removed} == {"kill"}
    assert {error for _, error in deaths} == {"JobKilled('killed by hand')"}
    assert RetrySet(config).kill_all(reason="a spill") == 1
    assert {error for _, error in deaths} == {"JobKilled('killed by hand')"}  # no job can have died
    assert DeadSet(config).kill_all(reason="a spill") == 121
    assert deaths[-1][1] == "JobKilled('a spill')"


def test_deleting_all_is_clearing(config, raw_redis, removed):
    raw_redis.zadd("retry", {job(1): 1})
    assert RetrySet(config).delete_all() == 1
    assert [event.how for event in removed] == ["clear"]
    raw_redis.zadd("retry", {job(n): n for n in range(120)})
    assert RetrySet(config).delete_all(JobFilter(text="args")) == 120
    assert {event.how for event in removed[1:]} == {"delete"}


def test_jobs_are_popped_until_none_is_left(any_set, raw_redis, removed):
    raw_redis.zadd(any_set.name, {job(n): n for n in range(3)})
    assert [entry.score for entry in any_set.pop_each()] == [0, 1, 2]
    assert snapshot(raw_redis) == {}
    assert {(event.where, event.how) for event in removed} == {(any_set.name, "delete")}


# --------------------------------------------------------------------------------------- one job


def test_a_job_is_rescheduled_only_if_it_exists(any_set, raw_redis):
    raw_redis.zadd(any_set.name, {job(1): 1})
    entry = only(any_set)
    assert entry.reschedule(FUTURE)
    assert entry.at == raw_redis.zscore(any_set.name, job(1)) == FUTURE
    raw_redis.delete(any_set.name)
    assert not entry.reschedule(5)
    with pytest.raises(ValueError, match="epoch seconds before the year 10000"):
        entry.reschedule(math.nan)


def test_a_job_that_failed_is_an_error(any_set, raw_redis):
    raw_redis.zadd(any_set.name, {job(1): 1, failed_job(8): 2})
    assert [entry.is_error for entry in any_set] == [False, True]


# --------------------------------------------------------------------- while everything is in motion


def test_scanning_during_concurrent_changes_raises_nothing_and_misses_no_job(any_set, raw_redis):
    """Unchanged jobs are seen during any concurrent changes."""
    raw_redis.zadd(any_set.name, {job(n): n % 7 for n in range(1_000)})
    over = threading.Event()

    def disturb() -> None:
        for number in count(10_000):
            if over.is_set():
                return
            raw_redis.zadd(any_set.name, {job(number): number % 11})
            raw_redis.zrem(any_set.name, job(number - 50), job(number % 300))
            raw_redis.zadd(any_set.name, {job(300 + number % 100): number})

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        walk = {entry.args[0] for entry in islice(any_set, 5_000)}
        chunks = [entry.args[0] for chunk in through(any_set, JobFilter(), budget_ms=1) for entry in chunk.entries]
    finally:
        over.set()
        thread.join()
    stayed = set(range(400, 1_000))
    assert stayed <= walk
    assert stayed <= set(chunks)
