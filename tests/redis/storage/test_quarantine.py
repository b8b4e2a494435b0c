"""Putting jobs aside and back: one script each, compared first, written before removed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsider.core.errors import Fenced, RedisRefused
from offsider.storage import quarantine
from offsider.storage.places import MoveResult, move
from offsider.storage.quarantine import Seen
from offsider.storage.working import Owner, PrivateListEntry
from tests.snapshot import snapshot

DAY = 86_400


def aside(pool):
    """What is in quarantine: bytes, place, score, reason."""
    return [(job.raw, job.where, job.score, job.how) for job in quarantine.page(pool, 0, 100)]


def put(pool, members, *, days=1.0, where="retry"):
    moves = [quarantine.move_of(Seen(raw, score=score), where, at=5.5, how="spam") for raw, score in members]
    return move(pool, where, moves, quarantine.for_days(days))


def test_existing_members_are_quarantined_with_their_origin(pool, raw_redis):
    raw_redis.zadd("retry", {"a": 1.25, "b": 2, "c": 3})
    assert put(pool, [(b"a", 1.25), (b"nobody", 9), (b"c", 3)]) == [MoveResult.DONE, MoveResult.GONE, MoveResult.DONE]
    assert raw_redis.zrange("retry", 0, -1) == [b"b"]
    assert sorted(aside(pool)) == [(b"a", "retry", 1.25, "spam"), (b"c", "retry", 3.0, "spam")]
    assert quarantine.size(pool) == 2
    now = raw_redis.time()[0]
    assert all(job.at == 5.5 and abs(job.until - now - DAY) < 5 for job in quarantine.page(pool, 0, 10))


# ------------------------------------------------------------------------------------ and back


def restore(pool, job):
    return quarantine.restore(pool, job.id, job.where, job.score)


def test_a_member_is_restored_with_its_score(pool, raw_redis):
    raw_redis.zadd("retry", {b"a\nb": 1795216790.652})
    put(pool, [(b"a\nb", 1795216790.652)])
    (job,) = quarantine.page(pool, 0, 10)
    assert quarantine.find(pool, job.id) == job
    assert restore(pool, job)
    assert not restore(pool, job)
    assert snapshot(raw_redis) == {"retry": {b"a\nb": 1795216790.652}}


def test_a_job_is_restored_to_the_tail_of_its_queue(pool, raw_redis):
    raw_redis.lpush("queue:low", "job 0", "job 1")
    put(pool, [(b"job 0", 0)], where="queue:low")
    assert restore(pool, *quarantine.page(pool, 0, 10))
    assert snapshot(raw_redis) == {"queue:low": [b"job 0", b"job 1"], "queues": {b"low"}}


def test_jobs_of_an_unusable_queue_stay_in_quarantine(pool, raw_redis):
    raw_redis.lpush("queue:low", "job 0")
    put(pool, [(b"job 0", 0)], where="queue:low")
    raw_redis.set("queue:low", "wrong")
    with pytest.raises(RedisRefused):
        restore(pool, *quarantine.page(pool, 0, 10))
    assert len(aside(pool)) == 1


def test_pages_begin_at_either_end(pool, raw_redis):
    raw_redis.zadd("retry", {"a": 1, "b": 2})
    put(pool, [(b"a", 1)], days=1)
    put(pool, [(b"b", 2)], days=2)
    assert [job.raw for job in quarantine.page(pool, 0, 1)] == [b"b"]
    assert [job.raw for job in quarantine.page(pool, 0, 1, newest_first=False)] == [b"a"]
    assert quarantine.page(pool, 2, 5) == []


def test_foreign_entries_break_no_page(pool, raw_redis):
    raw_redis.zadd("offsider:quarantine", {"half": 9e9, "odd": 9e9, b"\xff": 9e9, "list": 9e9})
    raw_redis.hset("offsider:quarantine:jobs", mapping={"odd": "no head", b"\xff": b'{"score":"x"}\njob', "list": "[]"})
    assert sorted((job.where, job.score, job.raw) for job in quarantine.page(pool, 0, 10)) == [
        ("", 0.0, b""),
        ("", 0.0, b""),
        ("", 0.0, b"job"),
    ]


# ---------------------------------------------------------------------------------- from a run

ENTRY = PrivateListEntry(Owner("host:1:aaaaaaaaaaaa", "default"), "low", b"job")
LIST = "offsider:working:host:1:aaaaaaaaaaaa:default:low"


def test_a_claimed_job_is_quarantined_and_restored_to_its_queue(pool, raw_redis):
    raw_redis.lpush(LIST, "job", "other")
    assert quarantine.put_from_run(pool, ENTRY, days=1, most=9, at=5.5, how="a control")
    assert raw_redis.lrange(LIST, 0, -1) == [b"other"]
    assert aside(pool) == [(b"job", "queue:low", 0.0, "a control")]
    assert not quarantine.put_from_run(pool, ENTRY, days=1, most=9, at=5.5, how="a control"), "it was gone"
    (job,) = quarantine.page(pool, 0, 10)
    assert abs(job.until - raw_redis.time()[0] - DAY) < 5
    assert restore(pool, job)
    assert raw_redis.lrange("queue:low", 0, -1) == [b"job"]


def test_a_fenced_owner_quarantines_nothing(pool, raw_redis):
    raw_redis.lpush(LIST, "job")
    raw_redis.set("offsider:fenced:host:1:aaaaaaaaaaaa", 1)
    with pytest.raises(Fenced):
        quarantine.put_from_run(pool, ENTRY, days=1, most=9, at=5.5, how="a control")
    assert aside(pool) == []


def test_a_job_in_no_other_place_is_added(pool, raw_redis):
    quarantine.add(pool, b"job\nof two lines", "low", days=1, most=9, at=5.5, how="a control")
    assert aside(pool) == [(b"job\nof two lines", "queue:low", 0.0, "a control")]
    (job,) = quarantine.page(pool, 0, 10)
    assert abs(job.until - raw_redis.time()[0] - DAY) < 5


def test_once_the_quarantine_is_full_more_jobs_of_a_run_are_deleted(pool, raw_redis):
    raw_redis.lpush(LIST, "first", "second")
    assert quarantine.put_from_run(pool, replace(ENTRY, raw=b"first"), days=1, most=1, at=5.5, how="a control")
    assert quarantine.put_from_run(pool, replace(ENTRY, raw=b"second"), days=1, most=1, at=5.5, how="a control")
    quarantine.add(pool, b"third", "low", days=1, most=1, at=5.5, how="a control")
    assert [raw for raw, *_ in aside(pool)] == [b"first"]
    assert raw_redis.llen(LIST) == 0
