"""Putting jobs aside and back: one script each, compared first, written before removed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsider.core.errors import Fenced, RedisRefused
from offsider.storage import quarantine
from offsider.storage.quarantine import Seen
from offsider.storage.working import Owner, PrivateListEntry
from tests.snapshot import snapshot

DAY = 86_400


def aside(pool):
    """What is in quarantine: bytes, place, score, reason."""
    return [(job.raw, job.where, job.score, job.how) for job in quarantine.page(pool, 0, 100)]


def put(pool, members, *, days=1.0):
    return quarantine.put_from_set(pool, "retry", members, days=days, at=5.5, how="spam")


# ---------------------------------------------------------------------------------- from a set


def test_existing_members_are_quarantined_with_their_origin(pool, raw_redis):
    raw_redis.zadd("retry", {"a": 1.25, "b": 2, "c": 3})
    assert put(pool, [(b"a", 1.25), (b"nobody", 9), (b"c\n", 3), (b"c", 3)]) == [True, False, False, True]
    assert raw_redis.zrange("retry", 0, -1) == [b"b"]
    assert sorted(aside(pool)) == [(b"a", "retry", 1.25, "spam"), (b"c", "retry", 3.0, "spam")]
    assert quarantine.size(pool) == 2
    now = raw_redis.time()[0]
    assert all(job.at == 5.5 and abs(job.until - now - DAY) < 5 for job in quarantine.page(pool, 0, 10))


def test_nothing_is_lost_when_the_quarantine_cannot_be_written(pool, raw_redis):
    raw_redis.zadd("retry", {"a": 1})
    raw_redis.set("offsider:quarantine:jobs", "wrong")
    with pytest.raises(RedisRefused):
        put(pool, [(b"a", 1)])
    assert raw_redis.zrange("retry", 0, -1) == [b"a"]


# -------------------------------------------------------------------------------- from a queue


def stock(raw_redis, count=10):
    raw_redis.lpush("queue:low", *(b"job %d" % number for number in range(count)))


def waiting(raw_redis):
    return raw_redis.lrange("queue:low", 0, -1)[::-1]


def take(pool, *seen, days=0.0):
    return quarantine.take_from_queue(pool, "low", [Seen(b"job %d" % n, at) for n, at in seen], days=days, how="spam")


def test_jobs_are_deleted_from_where_they_were_seen(pool, raw_redis):
    stock(raw_redis)
    assert take(pool, (0, 0), (4, 4), (9, 9)) == [True] * 3
    assert waiting(raw_redis) == [b"job %d" % n for n in (1, 2, 3, 5, 6, 7, 8)]
    assert aside(pool) == []


def test_jobs_of_the_far_end_are_deleted_from_there(pool, raw_redis):
    stock(raw_redis, 1_000)
    assert take(pool, (990, 990), (999, 999)) == [True] * 2
    assert len(waiting(raw_redis)) == 998
    assert b"job 990" not in waiting(raw_redis)


def test_jobs_are_found_even_if_workers_claimed_others(pool, raw_redis):
    stock(raw_redis, 500)
    raw_redis.rpop("queue:low", 100)
    assert take(pool, (50, 50), (150, 150), (151, 151), (499, 499)) == [False, True, True, True]
    assert len(waiting(raw_redis)) == 397


def test_a_job_that_moved_far_is_left_alone(pool, raw_redis):
    stock(raw_redis, 3_000)
    raw_redis.rpop("queue:low", 1_500)
    assert take(pool, (1_600, 1_600)) == [False]
    assert len(waiting(raw_redis)) == 1_500


def test_the_search_ends_after_three_missing_jobs(pool, raw_redis):
    stock(raw_redis)
    seen = [Seen(b"gone %d" % number, number) for number in range(3)]
    assert quarantine.take_from_queue(pool, "low", [*seen, Seen(b"job 3", 5)]) == [False] * 4
    assert quarantine.take_from_queue(pool, "low", [*seen, Seen(b"job 3", 3)]) == [False] * 3 + [True]


def test_equal_jobs_are_each_moved_once(pool, raw_redis):
    raw_redis.lpush("queue:low", "a", "b", "a", "a")
    assert quarantine.take_from_queue(pool, "low", [Seen(b"a", 0), Seen(b"a", 0), Seen(b"a", 3)]) == [True, False, True]
    assert waiting(raw_redis) == [b"b", b"a"]


def test_an_index_out_of_range_finds_the_nearest_job(pool, raw_redis):
    stock(raw_redis, 3)
    assert take(pool, (2, 900)) == [True]
    assert waiting(raw_redis) == [b"job 0", b"job 1"]
    assert take(pool, (5, 5)) == [False]


def test_jobs_of_a_queue_are_put_aside(pool, raw_redis):
    stock(raw_redis, 3)
    assert take(pool, (1, 1), days=1) == [True]
    assert waiting(raw_redis) == [b"job 0", b"job 2"]
    assert aside(pool) == [(b"job 1", "queue:low", 0.0, "spam")]


def test_no_job_is_lost_or_marked_when_the_quarantine_cannot_be_written(pool, raw_redis):
    stock(raw_redis, 3)
    raw_redis.set("offsider:quarantine:jobs", "wrong")
    with pytest.raises(RedisRefused):
        take(pool, (0, 0), (1, 1), days=1)
    assert waiting(raw_redis) == [b"job 0", b"job 1", b"job 2"]


# ------------------------------------------------------------------------------------ and back


def test_a_member_is_restored_with_its_score(pool, raw_redis):
    raw_redis.zadd("retry", {b"a\nb": 1795216790.652})
    put(pool, [(b"a\nb", 1795216790.652)])
    (job,) = quarantine.page(pool, 0, 10)
    assert quarantine.find(pool, job.id) == job
    assert quarantine.restore(pool, job)
    assert not quarantine.restore(pool, job)
    assert snapshot(raw_redis) == {"retry": {b"a\nb": 1795216790.652}}


def test_a_job_is_restored_to_the_tail_of_its_queue(pool, raw_redis):
    stock(raw_redis, 2)
    take(pool, (0, 0), days=1)
    assert quarantine.restore(pool, *quarantine.page(pool, 0, 10))
    assert snapshot(raw_redis) == {"queue:low": [b"job 0", b"job 1"], "queues": {b"low"}}


def test_jobs_of_an_unusable_queue_stay_in_quarantine(pool, raw_redis):
    stock(raw_redis, 1)
    take(pool, (0, 0), days=1)
    raw_redis.set("queue:low", "wrong")
    with pytest.raises(RedisRefused):
        quarantine.restore(pool, *quarantine.page(pool, 0, 10))
    assert len(aside(pool)) == 1


def test_a_job_can_be_deleted_only_once(pool, raw_redis):
    raw_redis.zadd("retry", {"a": 1})
    put(pool, [(b"a", 1)])
    (job,) = quarantine.page(pool, 0, 10)
    assert quarantine.delete(pool, job.id)
    assert not quarantine.delete(pool, job.id)
    assert snapshot(raw_redis) == {}
    assert quarantine.find(pool, job.id) is None


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
    assert quarantine.restore(pool, job)
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
