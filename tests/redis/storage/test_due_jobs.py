"""A turn moves jobs first and reads afterwards; the lease admits one reader, and the server's clock decides."""

import pytest

from offsider.core.errors import RedisRefused
from offsider.storage import due_jobs, leases
from offsider.storage.due_jobs import Due, Lease
from offsider.storage.places import MOVE, Move, MoveResult
from tests.snapshot import snapshot

FUTURE = 9e9
LEASE = Lease("host:1:a", 60_000)
OTHER = Lease("host:2:b", 60_000)


def now(raw_redis) -> float:
    seconds, micros = raw_redis.time()
    return seconds + micros / 1e6


def turn(pool, *batches, lease=LEASE, limit=10):
    return due_jobs.move_and_look(pool, lease, batches, limit)


def look(pool, **more):
    return turn(pool, **more)[1]


def test_the_server_clock_decides_which_jobs_are_due(pool, raw_redis):
    """Also when the clock of this process is wrong (rule 22)."""
    at = now(raw_redis)
    raw_redis.zadd("schedule", {"past": at - 60, "just": at - 0.01, "soon": at + 60, "far": FUTURE})
    retries, schedule = look(pool).sets
    assert retries == Due([], None)
    assert schedule.members == [b"past", b"just"]
    assert schedule.next_in_seconds == pytest.approx(60, abs=5)


def test_a_read_returns_a_batch_and_whether_more_are_due(pool, raw_redis):
    raw_redis.zadd("retry", {f"job {n}": n + 1 for n in range(5)})
    seen = look(pool, limit=3)
    assert seen.is_due
    assert seen.sets[0].members == [b"job 0", b"job 1", b"job 2"]
    assert seen.sets[0].next_in_seconds < 0


def test_nothing_is_due_in_empty_sets(pool, raw_redis):
    seen = look(pool)
    assert seen.held
    assert not seen.is_due
    assert list(seen.sets) == [Due([], None), Due([], None)]
    assert list(snapshot(raw_redis)) == ["offsider:schedule"]


@pytest.mark.parametrize("score", ["-inf", "inf"])
def test_scores_without_end_are_read(pool, raw_redis, score):
    raw_redis.zadd("schedule", {"x": score})
    assert look(pool).sets[1].members == ([b"x"] if score == "-inf" else [])


def test_a_set_of_the_wrong_type_is_an_error_beside_the_other(pool, raw_redis):
    raw_redis.set("retry", "no set")
    raw_redis.zadd("schedule", {"job": 1.0})
    error, schedule = look(pool).sets
    assert isinstance(error, RedisRefused)
    assert error.code == "WRONGTYPE"
    assert schedule.members == [b"job"]


def test_moves_precede_the_read(pool, raw_redis):
    raw_redis.zadd("retry", {"old": 1.0, "next": 2.0})
    raw_redis.zadd("schedule", {"early": FUTURE})
    moved, seen = turn(
        pool,
        ("retry", [Move(b"old", b"new", "low")]),
        ("schedule", [Move(b"early", b"x", "low")]),
        limit=1,
    )
    assert moved == [[MoveResult.DONE], [MoveResult.GONE]]
    assert seen.sets[0].members == [b"next"]
    assert raw_redis.lrange("queue:low", 0, -1) == [b"new"]


def test_a_refused_batch_does_not_block_the_other(pool, raw_redis):
    raw_redis.set("retry", "no set")
    raw_redis.zadd("schedule", {"old": 1.0})
    moved, _ = turn(
        pool,
        ("retry", [Move(b"x", b"x", "low")]),
        ("schedule", [Move(b"old", b"new", "low")]),
    )
    assert isinstance(moved[0], RedisRefused)
    assert moved[1] == [MoveResult.DONE]


def test_unknown_scripts_are_sent_as_text_and_the_read_is_last(pool, raw_redis):
    raw_redis.script_flush()
    raw_redis.script_load(due_jobs.DUE_JOBS.text)
    raw_redis.zadd("retry", {"old": 1.0})
    moved, seen = turn(pool, ("retry", [Move(b"old", b"new", "low")]))
    assert moved == [[MoveResult.DONE]]
    assert not seen.is_due
    assert raw_redis.script_exists(MOVE.sha) == [True]


def test_a_failed_read_raises(pool, raw_redis):
    raw_redis.lpush("offsider:schedule", "no lease")
    with pytest.raises(RedisRefused):
        look(pool)


# ------------------------------------------------------------------------------------ the lease


def test_without_the_lease_a_process_reads_nothing_and_learns_when_it_ends(pool, raw_redis):
    raw_redis.zadd("schedule", {"job": 1.0})
    assert look(pool).held
    seen = look(pool, lease=OTHER)
    assert not seen.held
    assert not seen.is_due
    assert 50 < seen.lease_ends_in_seconds <= 60
    assert raw_redis.get("offsider:schedule") == b"host:1:a"


def test_a_lease_without_an_end_is_deleted(pool, raw_redis):
    raw_redis.set("offsider:schedule", "someone")
    assert look(pool).lease_ends_in_seconds == 0
    assert look(pool).held


def test_each_read_renews_the_lease_and_a_short_lease_expires(pool, raw_redis):
    look(pool, lease=Lease("host:1:a", 600_000))
    assert raw_redis.pttl("offsider:schedule") > 60_000
    look(pool)
    assert 0 < raw_redis.pttl("offsider:schedule") <= 60_000


def test_only_the_holder_releases_the_lease(pool, raw_redis):
    assert not leases.release(pool, pool.keys.schedule_lease, LEASE.holder)
    look(pool)
    assert not leases.release(pool, pool.keys.schedule_lease, OTHER.holder)
    assert leases.release(pool, pool.keys.schedule_lease, LEASE.holder)
    assert snapshot(raw_redis) == {}
    assert look(pool, lease=OTHER).held
