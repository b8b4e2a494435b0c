"""Schedule, retry and dead set: compare, write, remove last; the caller that removes the member has won."""

import pytest

from offsider.storage import job_sets
from offsider.storage.places import Move, dead_set, move
from offsider.storage.working import DeadSetLimits
from tests.snapshot import snapshot

FUTURE = 9e9


def now(raw_redis) -> float:
    seconds, micros = raw_redis.time()
    return seconds + micros / 1e6


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
        move(pool, "retry", [Move(b"job", b"job")], dead_set(limits))
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


def test_adding_and_counting(pool):
    job_sets.add(pool, pool.keys.schedule, b"a", 12.5)
    job_sets.add(pool, pool.keys.schedule, b"b", 12.5)
    assert job_sets.size(pool, pool.keys.schedule) == 2
    assert job_sets.with_score(pool, pool.keys.schedule, 12.5) == [b"a", b"b"]


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


def test_clearing_returns_the_number_of_members(pool, raw_redis):
    raw_redis.zadd("retry", {"a": 1, "b": 2})
    assert job_sets.clear(pool, pool.keys.retry) == 2
    assert job_sets.clear(pool, pool.keys.retry) == 0
    assert snapshot(raw_redis) == {}


def test_a_job_postponed_further_keeps_its_time(pool, raw_redis):
    raw_redis.zadd("schedule", {b"job": FUTURE})
    assert not job_sets.defer(pool, pool.keys.schedule, b"job", 60)
    assert snapshot(raw_redis) == {"schedule": {b"job": FUTURE}}


def test_pages_begin_at_either_end(pool, raw_redis):
    raw_redis.zadd("retry", {f"{n}": n for n in range(10)})
    assert job_sets.page(pool, pool.keys.retry, 0, 2) == [(b"0", 0.0), (b"1", 1.0)]
    assert job_sets.page(pool, pool.keys.retry, 8, 5) == [(b"8", 8.0), (b"9", 9.0)]
    assert job_sets.page(pool, pool.keys.retry, 0, 2, newest_first=True) == [(b"9", 9.0), (b"8", 8.0)]
    assert job_sets.page(pool, pool.keys.retry, 10, 5) == []


@pytest.mark.parametrize("text, found", [("", 1_000), ("job 77", 11), ("*", 0), ("[0-9]", 0)])
def test_repeated_reads_reach_the_end(pool, raw_redis, text, found):
    raw_redis.zadd("retry", {f"job {number}": number for number in range(1_000)})
    members: dict[bytes, float] = {}
    cursor, looks = "", 0
    while looks == 0 or cursor:
        cursor, part = job_sets.scan_on(pool, pool.keys.retry, text, cursor, 50)
        members |= dict(part)
        looks += 1
    assert len(members) == found
    assert looks > 5
