"""Schedule, retry and dead set: compare, write, remove last; the caller that removes the member has won."""

import pytest

from offsider.core.errors import RedisRefused
from offsider.storage import job_sets
from offsider.storage.job_sets import Move, MoveResult
from offsider.storage.working import DeadSetLimits
from tests.snapshot import snapshot

FUTURE = 9e9
LIMITS = DeadSetLimits()


def now(raw_redis) -> float:
    seconds, micros = raw_redis.time()
    return seconds + micros / 1e6


# ------------------------------------------------------------------------------------ enqueue


def test_a_due_job_moves_to_the_tail_of_its_queue(pool, raw_redis):
    raw_redis.zadd("retry", {"old": 1.0, "other": 2.0})
    raw_redis.lpush("queue:low", "waiting")
    assert job_sets.enqueue(pool, pool.keys.retry, [Move(b"old", b"new", "low")], only_due=True) == [MoveResult.DONE]
    assert snapshot(raw_redis) == {
        "queues": {b"low"},
        "queue:low": [b"new", b"waiting"],
        "retry": {b"other": 2.0},
    }


def test_a_missing_job_is_not_pushed(pool, raw_redis):
    """Another poller was faster: its removal of the member has won."""
    assert job_sets.enqueue(pool, pool.keys.retry, [Move(b"old", b"new", "low")], only_due=True) == [MoveResult.GONE]
    assert snapshot(raw_redis) == {}


def test_a_job_whose_score_was_edited_is_left_alone(pool, raw_redis):
    """The bytes are the same, only the time has changed (rule 13)."""
    raw_redis.zadd("schedule", {"job": FUTURE})
    assert job_sets.enqueue(pool, pool.keys.schedule, [Move(b"job", b"new", "low")], only_due=True) == [MoveResult.GONE]
    assert snapshot(raw_redis) == {"schedule": {b"job": FUTURE}}


def test_by_hand_a_job_moves_before_its_time(pool, raw_redis):
    raw_redis.zadd("schedule", {"job": FUTURE})
    assert job_sets.enqueue(pool, pool.keys.schedule, [Move(b"job", b"new", "low")], only_due=False) == [
        MoveResult.DONE
    ]
    assert snapshot(raw_redis) == {"queues": {b"low"}, "queue:low": [b"new"]}


def test_the_order_of_a_batch_is_kept(pool, raw_redis):
    raw_redis.zadd("schedule", {f"{n}": n for n in range(1, 101)})
    moves = [Move(f"{n}".encode(), f"{n}".encode(), "low") for n in range(1, 101)]
    assert set(job_sets.enqueue(pool, pool.keys.schedule, moves, only_due=True)) == {MoveResult.DONE}
    assert [int(raw) for raw in reversed(raw_redis.lrange("queue:low", 0, -1))] == list(range(1, 101))


def test_a_queue_of_the_wrong_type_blocks_neither_its_job_nor_the_others(pool, raw_redis):
    raw_redis.set("queue:bad", "wrong")
    raw_redis.zadd("schedule", {"a": 1, "b": 2, "c": 3})
    moves = [Move(b"a", b"a", "low"), Move(b"b", b"b", "bad"), Move(b"c", b"c", "low")]
    assert job_sets.enqueue(pool, pool.keys.schedule, moves, only_due=True) == [
        MoveResult.DONE,
        MoveResult.REFUSED,
        MoveResult.DONE,
    ]
    stored = snapshot(raw_redis)
    assert stored["queue:low"] == [b"c", b"a"]
    assert stored["schedule"] == {b"b": 2.0}
    assert stored["queue:bad"] == b"wrong"


def test_a_set_of_queues_of_the_wrong_type_does_not_stop_a_move(pool, raw_redis):
    raw_redis.set("queues", "wrong")
    raw_redis.zadd("schedule", {"a": 1})
    assert job_sets.enqueue(pool, pool.keys.schedule, [Move(b"a", b"a", "low")], only_due=True) == [MoveResult.DONE]


# ------------------------------------------------------------------------------- kill and bury


def test_a_killed_job_is_in_the_dead_set_unchanged(pool, raw_redis):
    raw_redis.zadd("retry", {"job": FUTURE})
    assert job_sets.kill(pool, pool.keys.retry, [(b"job", b"job")], LIMITS) == [True]
    stored = snapshot(raw_redis)
    assert set(stored) == {"dead"}
    assert stored["dead"][b"job"] == pytest.approx(now(raw_redis), abs=5)
    assert job_sets.kill(pool, pool.keys.retry, [(b"job", b"job")], LIMITS) == [False]


def test_a_dead_member_can_also_be_replaced(pool, raw_redis):
    raw_redis.zadd("retry", {"5": 1})
    assert job_sets.kill(pool, pool.keys.retry, [(b"5", b"wrapped")], LIMITS) == [True]
    assert {key: list(value) for key, value in snapshot(raw_redis).items()} == {"dead": [b"wrapped"]}
    assert job_sets.kill(pool, pool.keys.dead, [(b"wrapped", b"wrapped")], LIMITS) == [True]
    assert job_sets.kill(pool, pool.keys.dead, [(b"wrapped", b"anew")], LIMITS) == [True]
    assert {key: list(value) for key, value in snapshot(raw_redis).items()} == {"dead": [b"anew"]}


def test_nothing_is_lost_when_the_dead_set_is_of_the_wrong_type(pool, raw_redis):
    raw_redis.zadd("retry", {"job": FUTURE})
    raw_redis.set("dead", "wrong")
    before = snapshot(raw_redis)
    with pytest.raises(RedisRefused):
        job_sets.kill(pool, pool.keys.retry, [(b"job", b"job")], LIMITS)
    assert snapshot(raw_redis) == before


@pytest.mark.parametrize("how", ["kill", "bury"])
@pytest.mark.parametrize(
    "ages, kept",
    [
        ([1000, 501, 499, 5], [499, 5]),
        ([10, 9, 8, 7, 6, 5, 4], [7, 6, 5, 4]),
        ([501, 4, 3, 2, 1], [4, 3, 2, 1]),
    ],
    ids=["by age", "by number", "by both"],
)
def test_the_dead_set_is_cut_as_sidekiq_cuts_it(pool, raw_redis, how, ages, kept):
    at = now(raw_redis)
    raw_redis.zadd("dead", {f"{age}": at - age for age in ages})
    limits = DeadSetLimits(max_jobs=6, timeout_seconds=500)
    if how == "kill":
        raw_redis.zadd("retry", {"job": 1})
        job_sets.kill(pool, pool.keys.retry, [(b"job", b"job")], limits)
    else:
        job_sets.bury(pool, b"job", at, limits)
    assert raw_redis.zrange("dead", 0, -1) == [*(f"{age}".encode() for age in kept), b"job"]


# -------------------------------------------------------------------------------------- others


def test_a_job_is_postponed_only_if_it_exists(pool, raw_redis):
    raw_redis.zadd("schedule", {"job": 1.0})
    assert job_sets.defer(pool, pool.keys.schedule, b"job", 60.5)
    assert not job_sets.defer(pool, pool.keys.schedule, b"none", 60.5)
    (score,) = snapshot(raw_redis)["schedule"].values()
    assert score == pytest.approx(now(raw_redis) + 60.5, abs=5)


def test_adding_removing_and_counting(pool, raw_redis):
    job_sets.add(pool, pool.keys.schedule, b"a", 12.5)
    job_sets.add(pool, pool.keys.schedule, b"b", 12.5)
    assert job_sets.size(pool, pool.keys.schedule) == 2
    assert job_sets.with_score(pool, pool.keys.schedule, 12.5) == [b"a", b"b"]
    assert job_sets.remove(pool, pool.keys.schedule, [b"a"]) == [True]
    assert job_sets.remove(pool, pool.keys.schedule, [b"a"]) == [False]
    assert snapshot(raw_redis) == {"schedule": {b"b": 12.5}}


@pytest.mark.parametrize("of_one_score", [1, 7, 49, 50, 51, 60, 500])
def test_every_member_is_read_once_though_many_share_a_score(pool, raw_redis, of_one_score):
    expected = {f"job {n:03}".encode(): float(n // of_one_score) for n in range(305)}
    raw_redis.zadd("dead", expected)
    read = list(job_sets.each(pool, pool.keys.dead))
    assert len(read) == 305
    assert dict(read) == expected


@pytest.mark.parametrize("of_one_score", [1, 7, 50, 60, 500])
@pytest.mark.parametrize("deleted", [1, 2, 3, 49])
def test_reading_misses_no_member_during_deletions(pool, raw_redis, of_one_score, deleted):
    """A caller that retries or deletes the jobs it reads must reach every job."""
    raw_redis.zadd("dead", {f"job {n:03}": n // of_one_score for n in range(305)})
    seen = []
    for number, (member, _) in enumerate(job_sets.each(pool, pool.keys.dead)):
        seen.append(member)
        if number % deleted == 0:
            raw_redis.zrem("dead", member)
    assert sorted(seen) == [f"job {n:03}".encode() for n in range(305)]


def test_reading_an_empty_set_returns_nothing(pool):
    assert list(job_sets.each(pool, pool.keys.dead)) == []


def test_reading_resumes_at_a_score(pool, raw_redis):
    raw_redis.zadd("dead", {f"job {number}": number for number in range(120)})
    assert [score for _, score in job_sets.each(pool, pool.keys.dead, 117)] == [117, 118, 119]


def test_clearing_returns_the_number_of_members(pool, raw_redis):
    raw_redis.zadd("retry", {"a": 1, "b": 2})
    assert job_sets.clear(pool, pool.keys.retry) == 2
    assert job_sets.clear(pool, pool.keys.retry) == 0
    assert snapshot(raw_redis) == {}


def test_a_job_postponed_further_keeps_its_time(pool, raw_redis):
    raw_redis.zadd("schedule", {b"job": FUTURE})
    assert not job_sets.defer(pool, pool.keys.schedule, b"job", 60)
    assert not job_sets.drop(pool, pool.keys.schedule, b"job")
    assert job_sets.kill(pool, pool.keys.schedule, [(b"job", b"job")], LIMITS, only_due=True) == [False]
    assert snapshot(raw_redis) == {"schedule": {b"job": FUTURE}}


def test_a_job_that_is_due_can_be_dropped_once(pool, raw_redis):
    raw_redis.zadd("schedule", {b"job": 1, b"other": 2})
    assert job_sets.drop(pool, pool.keys.schedule, b"job")
    assert not job_sets.drop(pool, pool.keys.schedule, b"job")
    assert raw_redis.zrange("schedule", 0, -1) == [b"other"]


def test_pages_begin_at_either_end(pool, raw_redis):
    raw_redis.zadd("retry", {f"{n}": n for n in range(10)})
    assert job_sets.page(pool, pool.keys.retry, 0, 2) == [(b"0", 0.0), (b"1", 1.0)]
    assert job_sets.page(pool, pool.keys.retry, 8, 5) == [(b"8", 8.0), (b"9", 9.0)]
    assert job_sets.page(pool, pool.keys.retry, 0, 2, newest_first=True) == [(b"9", 9.0), (b"8", 8.0)]
    assert job_sets.page(pool, pool.keys.retry, 10, 5) == []


def test_many_are_killed_at_once_also_when_the_server_has_forgotten_the_script(pool, raw_redis):
    raw_redis.zadd("retry", {"a": 1, "b": 2, "c": 3})
    raw_redis.script_flush()
    assert job_sets.kill(pool, pool.keys.retry, [(name, name) for name in (b"a", b"nobody", b"c")], LIMITS) == [
        True,
        False,
        True,
    ]
    assert raw_redis.zrange("retry", 0, -1) == [b"b"]
    assert sorted(raw_redis.zrange("dead", 0, -1)) == [b"a", b"c"]


def test_many_that_cannot_be_killed_stay(pool, raw_redis):
    raw_redis.zadd("retry", {"a": 1})
    raw_redis.set("dead", "wrong")
    with pytest.raises(RedisRefused):
        job_sets.kill(pool, pool.keys.retry, [(b"a", b"a")], LIMITS)
    assert raw_redis.zcard("retry") == 1


def test_many_are_removed_at_once(pool, raw_redis):
    raw_redis.zadd("retry", {"a": 1, "b": 2})
    assert job_sets.remove(pool, pool.keys.retry, [b"a", b"nobody"]) == [True, False]
    assert snapshot(raw_redis) == {"retry": {b"b": 2.0}}


def test_a_member_is_rescored_only_if_it_exists(pool, raw_redis):
    raw_redis.zadd("schedule", {"a": 1})
    assert job_sets.reschedule(pool, pool.keys.schedule, b"a", FUTURE)
    assert job_sets.reschedule(pool, pool.keys.schedule, b"a", FUTURE)
    assert not job_sets.reschedule(pool, pool.keys.schedule, b"nobody", FUTURE)
    assert snapshot(raw_redis) == {"schedule": {b"a": FUTURE}}


@pytest.mark.parametrize("text, found", [("", 1_000), ("job 77", 11), ("*", 0), ("[0-9]", 0)])
def test_repeated_reads_reach_the_end(pool, raw_redis, text, found):
    raw_redis.zadd("retry", {f"job {number}": number for number in range(1_000)})
    members: dict[bytes, float] = {}
    cursor, looks = 0, 0
    while looks == 0 or cursor:
        cursor, part = job_sets.scan_on(pool, pool.keys.retry, text, cursor, 50)
        members |= dict(part)
        looks += 1
    assert len(members) == found
    assert looks > 5
