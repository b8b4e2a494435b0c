"""Moves of stored jobs: compared first, written before removed, and between two servers by way of a journal."""

from __future__ import annotations

import pytest
import redis as redis_py

from offsider.core.errors import QueueFull, RedisRefused
from offsider.storage import migration
from offsider.storage.job_sets import Moved
from offsider.storage.migration import Entry, Journal, Outgoing, Shifting
from offsider.storage.redis import Redis, RedisSettings
from tests.databases import at_database
from tests.snapshot import snapshot

JOURNAL = Journal("aaaa", "bulk")


@pytest.fixture
def other_raw(redis_url):
    """Another database of the same server stands for another server."""
    with redis_py.Redis.from_url(at_database(redis_url, 1)) as client:
        yield client


@pytest.fixture
def other(redis_url, other_raw):
    pool = Redis(RedisSettings(url=at_database(redis_url, 1)), size=2)
    yield pool
    pool.close()


def stock(raw_redis, count=10):
    raw_redis.lpush("queue:low", *(b"job %d" % number for number in range(count)))


def waiting(raw_redis, queue="low"):
    return raw_redis.lrange(f"queue:{queue}", 0, -1)[::-1]


def shifting(*seen, queue="high"):
    return [Shifting(b"job %d" % n, at, b"moved %d" % n, queue) for n, at in seen]


# ---------------------------------------------------------------------------------- on one server


def test_jobs_move_in_their_order_to_the_tails_of_their_queues(pool, raw_redis):
    stock(raw_redis)
    raw_redis.lpush("queue:high", "first")
    moves = [*shifting((0, 0), (4, 4)), *shifting((5, 5), queue="other"), *shifting((9, 9))]
    assert migration.shift(pool, "low", moves) == [Moved.DONE] * 4
    assert waiting(raw_redis) == [b"job %d" % n for n in (1, 2, 3, 6, 7, 8)]
    assert waiting(raw_redis, "high") == [b"first", b"moved 0", b"moved 4", b"moved 9"]
    assert waiting(raw_redis, "other") == [b"moved 5"]
    assert raw_redis.smembers("queues") == {b"high", b"other"}


def test_jobs_of_the_far_end_are_moved_from_there(pool, raw_redis):
    stock(raw_redis, 1_000)
    assert migration.shift(pool, "low", shifting((990, 990), (999, 999))) == [Moved.DONE] * 2
    assert len(waiting(raw_redis)) == 998


def test_jobs_are_found_although_workers_took_others_meanwhile(pool, raw_redis):
    stock(raw_redis, 500)
    raw_redis.rpop("queue:low", 100)
    done = migration.shift(pool, "low", shifting((50, 50), (150, 150), (151, 151), (499, 499)))
    assert done == [Moved.GONE, Moved.DONE, Moved.DONE, Moved.DONE]
    assert len(waiting(raw_redis)) == 397
    assert waiting(raw_redis, "high") == [b"moved 150", b"moved 151", b"moved 499"]


def test_jobs_are_found_although_a_worker_gave_some_back_meanwhile(pool, raw_redis):
    stock(raw_redis, 500)
    raw_redis.rpush("queue:low", *(b"back %d" % number for number in range(60)))
    assert migration.shift(pool, "low", shifting((0, 0), (7, 7), (499, 499))) == [Moved.DONE] * 3
    assert waiting(raw_redis, "high") == [b"moved 0", b"moved 7", b"moved 499"]
    assert len(waiting(raw_redis)) == 557


def test_after_three_that_are_gone_the_search_ends(pool, raw_redis):
    stock(raw_redis)
    gone = shifting((20, 0), (21, 1), (22, 2))
    assert migration.shift(pool, "low", [*gone, *shifting((3, 5))]) == [Moved.GONE] * 4
    assert migration.shift(pool, "low", [*gone, *shifting((3, 3))]) == [Moved.GONE] * 3 + [Moved.DONE]


def test_nothing_moves_from_a_queue_that_is_empty_by_now(pool, raw_redis):
    assert migration.shift(pool, "low", shifting((0, 0), (1, 1))) == [Moved.GONE] * 2
    assert snapshot(raw_redis) == {}


def test_a_place_that_the_queue_does_not_have_finds_what_is_nearest(pool, raw_redis):
    stock(raw_redis, 3)
    assert migration.shift(pool, "low", shifting((2, 900))) == [Moved.DONE]
    assert waiting(raw_redis) == [b"job 0", b"job 1"]


def test_a_place_is_taken_once(pool, raw_redis):
    stock(raw_redis, 3)
    assert migration.shift(pool, "low", shifting((1, 1), (1, 1))) == [Moved.DONE, Moved.GONE]
    assert waiting(raw_redis, "high") == [b"moved 1"]


def test_a_queue_that_is_no_list_takes_no_job_and_loses_none(pool, raw_redis):
    stock(raw_redis, 2)
    raw_redis.set("queue:high", "wrong")
    done = migration.shift(pool, "low", [*shifting((0, 0)), *shifting((1, 1), queue="other")])
    assert done == [Moved.REFUSED, Moved.DONE]
    assert waiting(raw_redis) == [b"job 0"]


def replacing(*seen):
    return [(b"job %d" % n, at, b"other %d" % n) for n, at in seen]


def test_jobs_of_a_list_are_replaced_where_they_lie(pool, raw_redis):
    stock(raw_redis, 5)
    assert migration.replace(pool, "queue:low", replacing((0, 0), (3, 3))) == [Moved.DONE] * 2
    assert waiting(raw_redis) == [b"other 0", b"job 1", b"job 2", b"other 3", b"job 4"]


def test_jobs_are_replaced_although_others_were_taken_or_given_back(pool, raw_redis):
    stock(raw_redis, 500)
    raw_redis.rpop("queue:low", 100)
    done = migration.replace(pool, "queue:low", replacing((99, 99), (150, 150), (499, 499)))
    assert done == [Moved.GONE, Moved.DONE, Moved.DONE]
    raw_redis.rpush("queue:low", *(b"back %d" % n for n in range(50)))
    assert migration.replace(pool, "queue:low", replacing((101, 1), (102, 2))) == [Moved.DONE] * 2
    assert len(waiting(raw_redis)) == 450
    assert [raw for raw in waiting(raw_redis) if raw.startswith(b"other")] == [
        b"other 101", b"other 102", b"other 150", b"other 499"
    ]  # fmt: skip


def test_a_job_that_is_gone_or_far_away_is_not_replaced(pool, raw_redis):
    assert migration.replace(pool, "queue:low", replacing((0, 0))) == [Moved.GONE]
    stock(raw_redis, 3_000)
    raw_redis.rpop("queue:low", 1_500)
    assert migration.replace(pool, "queue:low", replacing((1_600, 1_600))) == [Moved.GONE]
    assert migration.replace(pool, "queue:low", replacing(*[(n, n) for n in range(4)], (1_505, 0))) == [Moved.GONE] * 5


def test_members_keep_the_very_score(pool, raw_redis):
    scores = {"a": 1700000000.1234567, "b": float("inf"), "c": -0.1}
    raw_redis.zadd("retry", scores)
    done = migration.rewrite(pool, "retry", [(b"a", b"A"), (b"gone", b"G"), (b"b", b"B")])
    assert done == [Moved.DONE, Moved.GONE, Moved.DONE]
    assert snapshot(raw_redis) == {"retry": {b"A": scores["a"], b"B": scores["b"], b"c": scores["c"]}}


def test_a_member_is_not_written_over_its_double(pool, raw_redis):
    raw_redis.zadd("retry", {"a": 1, "A": 2})
    assert migration.rewrite(pool, "retry", [(b"a", b"A")]) == [Moved.REFUSED]
    assert snapshot(raw_redis) == {"retry": {b"a": 1, b"A": 2}}


# ------------------------------------------------------------------------------- between two servers


def out(*numbers, where="queue:high"):
    return [Outgoing(b"job %d" % n, n, n + 1, b"moved\n %d" % n, where) for n in numbers]


def test_a_journal_holds_jobs_in_the_order_of_their_numbers(pool, raw_redis):
    stock(raw_redis, 3)
    raw_redis.zadd("retry", {"job 3": 3.25})
    assert migration.shift_out(pool, "queue:low", JOURNAL, out(0, 2)) == [Moved.DONE] * 2
    assert migration.set_out(pool, "retry", JOURNAL, out(3, 4, where="retry")) == [Moved.DONE, Moved.GONE]
    assert migration.journals(pool) == [JOURNAL]
    assert migration.waiting(pool, JOURNAL) == 3
    assert waiting(raw_redis) == [b"job 1"]
    assert not raw_redis.exists("retry")
    assert migration.oldest(pool, JOURNAL) == [
        Entry(1, "", "queue:high", b"moved\n 0"),
        Entry(3, "", "queue:high", b"moved\n 2"),
        Entry(4, "3.25", "retry", b"moved\n 3"),
    ]
    assert [entry.number for entry in migration.oldest(pool, JOURNAL, 2)] == [1, 3]
    assert not raw_redis.exists("queues")


def test_nothing_leaves_a_set_when_the_journal_cannot_be_written(pool, raw_redis):
    raw_redis.zadd("retry", {"job 3": 3.25})
    raw_redis.set("offsider:migrating", "wrong")
    with pytest.raises(RedisRefused):
        migration.set_out(pool, "retry", JOURNAL, out(3, where="retry"))
    assert raw_redis.zrange("retry", 0, -1) == [b"job 3"]


ENTRIES = [
    Entry(1, "", "queue:high", b"a"),
    Entry(2, "1700000000.1234567", "retry", b"b"),
    Entry(4, "", "queue:low", b"c"),
]


def test_what_is_delivered_again_is_not_stored_again(other, other_raw):
    assert migration.deliver(other, JOURNAL, ENTRIES[:2]) == 2
    assert migration.deliver(other, JOURNAL, ENTRIES) == 4
    assert migration.deliver(other, JOURNAL, ENTRIES[:1]) == 4
    assert snapshot(other_raw) == {
        "queues": {b"high", b"low"},
        "queue:high": [b"a"],
        "queue:low": [b"c"],
        "retry": {b"b": 1700000000.1234567},
        "offsider:migrated:aaaa": b"4",
    }
    assert 0 < other_raw.ttl("offsider:migrated:aaaa") <= migration.REMEMBERED_SECONDS


def test_journals_do_not_disturb_each_other(other, other_raw):
    migration.deliver(other, JOURNAL, ENTRIES)
    migration.deliver(other, Journal("bbbb", "bulk"), ENTRIES[:1])
    assert waiting(other_raw, "high") == [b"a", b"a"]


def test_a_job_that_cannot_be_stored_stops_those_behind_it(other, other_raw):
    other_raw.set("retry", "wrong")
    assert migration.deliver(other, JOURNAL, ENTRIES) == 1
    with pytest.raises(RedisRefused, match=r"WRONGTYPE.*\(retry\)"):
        migration.deliver(other, JOURNAL, ENTRIES[1:])
    other_raw.delete("retry")
    assert migration.deliver(other, JOURNAL, ENTRIES) == 4
    assert waiting(other_raw, "high") == [b"a"]


def test_entries_that_have_arrived_are_struck_out_and_the_journal_with_the_last(pool, raw_redis):
    stock(raw_redis, 3)
    migration.shift_out(pool, "queue:low", JOURNAL, out(0, 1, 2))
    assert migration.strike_out(pool, JOURNAL, 2) == 2
    assert migration.strike_out(pool, JOURNAL, 2) == 0
    assert migration.journals(pool) == [JOURNAL]
    assert migration.strike_out(pool, JOURNAL, 3) == 1
    assert snapshot(raw_redis) == {}
    assert migration.strike_out(pool, JOURNAL, 3) == 0


def test_a_server_that_takes_writes_opens_and_forgets_nothing(other, other_raw):
    migration.knock(other, JOURNAL)
    assert snapshot(other_raw) == {"offsider:migrated:aaaa": b"0"}
    migration.deliver(other, JOURNAL, ENTRIES)
    migration.knock(other, JOURNAL)
    assert other_raw.get("offsider:migrated:aaaa") == b"4"


def test_a_full_server_does_not_open(make_server):
    server = make_server()
    full = Redis(RedisSettings(url=server.url), size=1)
    with redis_py.Redis.from_url(server.url) as client:
        client.config_set("maxmemory", 1)
    with pytest.raises(QueueFull):
        migration.knock(full, JOURNAL)
    full.close()


def test_each_journal_has_an_id_of_its_own():
    first, second = Journal.new("bulk"), Journal.new("bulk")
    assert first.id != second.id
    assert first.name == f"{first.id} bulk"
