"""Schedule, retry and dead set: compare, write, remove last; the caller that removes the member has won."""

import pytest

from offsider.storage import job_sets, strikes, working
from offsider.storage.places import Move, dead_set, move
from offsider.storage.working import DeadSetLimits, Owner, PrivateListEntry
from tests.snapshot import snapshot

FUTURE = 9e9
CLAIMED = PrivateListEntry(Owner("host:1:aaaaaaaaaaaa", "default"), "low", b"job")
LIST = "offsider:working:host:1:aaaaaaaaaaaa:default:low"


def now(raw_redis) -> float:
    seconds, micros = raw_redis.time()
    return seconds + micros / 1e6


@pytest.mark.parametrize("how", ["move", "settle", "poison", "add"])
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
    if how == "move":
        raw_redis.zadd("retry", {"job": 1})
        move(pool, "retry", [Move(b"job", b"job")], dead_set(limits))
    elif how == "settle":
        raw_redis.lpush(LIST, "job")
        working.bury(pool, CLAIMED, b"job", limits)
    elif how == "poison":
        raw_redis.lpush(LIST, "job")
        raw_redis.set("offsider:fenced:host:1:aaaaaaaaaaaa", "1 1")
        strikes.bury(pool, CLAIMED, b"job", limits)
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


@pytest.mark.parametrize("of_one_score", [1, 7, 49, 50, 51, 60, 500])
def test_every_member_is_read_once_though_many_share_a_score(pool, raw_redis, of_one_score):
    expected = {f"job {n:03}".encode(): float(n // of_one_score) for n in range(305)}
    raw_redis.zadd("dead", expected)
    read = list(job_sets.each(pool, pool.keys.dead))
    assert len(read) == 305
    assert dict(read) == expected


@pytest.mark.parametrize("of_one_score", [1, 50, 500])
@pytest.mark.parametrize("deleted", [1, 3])
def test_reading_misses_no_member_during_deletions(pool, raw_redis, of_one_score, deleted):
    """A caller that retries or deletes the jobs it reads must reach every job."""
    raw_redis.zadd("dead", {f"job {n:03}": n // of_one_score for n in range(305)})
    seen = []
    for number, (member, _) in enumerate(job_sets.each(pool, pool.keys.dead)):
        seen.append(member)
        if number % deleted == 0:
            raw_redis.zrem("dead", member)
    assert sorted(seen) == [f"job {n:03}".encode() for n in range(305)]


def test_a_job_postponed_further_keeps_its_time(pool, raw_redis):
    raw_redis.zadd("schedule", {b"job": FUTURE})
    assert not job_sets.defer(pool, pool.keys.schedule, b"job", 60)
    assert snapshot(raw_redis) == {"schedule": {b"job": FUTURE}}
