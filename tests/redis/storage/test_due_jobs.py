"""A turn moves jobs first and reads afterwards, and the server's clock decides."""

from types import SimpleNamespace

import pytest

from offsider.core.errors import RedisRefused
from offsider.storage import due_jobs
from offsider.storage.due_jobs import Due
from offsider.storage.places import MOVE, Move, MoveResult
from tests.snapshot import snapshot

FUTURE = 9e9


def now(raw_redis) -> float:
    seconds, micros = raw_redis.time()
    return seconds + micros / 1e6


def turn(pool, *batches, limit=10):
    return due_jobs.move_and_look(pool, batches, limit)


def look(pool, **more):
    return turn(pool, **more)[1]


def test_the_server_clock_decides_which_jobs_are_due(pool, raw_redis):
    """Also when the clock of this process is wrong (rule 22)."""
    at = now(raw_redis)
    raw_redis.zadd("schedule", {"past": at - 60, "just": at - 0.01, "soon": at + 60, "far": FUTURE})
    retries, schedule = look(pool)
    assert retries == Due([])
    assert schedule.members == [b"past", b"just"]
    assert schedule.next_score == at + 60
    assert schedule.next_in_seconds == pytest.approx(60, abs=5)


def test_a_read_returns_a_batch_and_whether_more_are_due(pool, raw_redis):
    raw_redis.zadd("retry", {f"job {n}": n + 1 for n in range(5)})
    seen = look(pool, limit=3)
    assert seen[0].members == [b"job 0", b"job 1", b"job 2"]
    assert seen[0].next_in_seconds < 0


def test_nothing_is_due_in_empty_sets(pool, raw_redis):
    assert look(pool) == [Due([]), Due([])]
    assert snapshot(raw_redis) == {}


@pytest.mark.parametrize("name", ["retry", "schedule"])
def test_a_job_before_the_next_known_one_is_noticed(pool, raw_redis, name):
    for score in (FUTURE, FUTURE - 1):
        known = look(pool)
        assert not due_jobs.has_earlier(pool, known)
        raw_redis.zadd(name, {f"job {score}": score})
        assert due_jobs.has_earlier(pool, known)
    known = look(pool)
    raw_redis.zadd(name, {"last": FUTURE + 2})
    assert not due_jobs.has_earlier(pool, known)
    raw_redis.set(name, "no set")
    assert due_jobs.has_earlier(pool, known), "the script reports the error"


@pytest.mark.parametrize("score", ["-inf", "inf"])
def test_scores_without_end_are_read(pool, raw_redis, score):
    raw_redis.zadd("schedule", {"x": score})
    assert look(pool)[1].members == ([b"x"] if score == "-inf" else [])


def test_a_set_of_the_wrong_type_is_an_error_beside_the_other(pool, raw_redis):
    raw_redis.set("retry", "no set")
    raw_redis.zadd("schedule", {"job": 1.0})
    error, schedule = look(pool)
    assert isinstance(error, RedisRefused)
    assert error.code == "WRONGTYPE"
    assert schedule.members == [b"job"]


def test_an_error_of_the_script_is_raised(pool, monkeypatch):
    refused = SimpleNamespace(by_hash=lambda *_: ("EVAL", "return redis.error_reply('ERR refused')", 0))
    monkeypatch.setattr(due_jobs, "DUE_JOBS", refused)
    with pytest.raises(RedisRefused):
        turn(pool)


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
    assert seen[0].members == [b"next"]
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
    assert seen == [Due([]), Due([])]
    assert raw_redis.script_exists(MOVE.sha) == [True]


def test_the_lag_is_the_age_of_the_oldest_due_job(pool, raw_redis):
    at = now(raw_redis)
    raw_redis.zadd("schedule", {"late": at - 100, "later": at - 200, "not yet": at + 50})
    raw_redis.zadd("retry", {"not yet": at + 50})
    lag = due_jobs.scheduler_lag_seconds(pool)
    assert lag["schedule"] == pytest.approx(200, abs=20)
    assert lag["retry"] == 0
