"""Moves of stored jobs: compared first, written before removed, and between two servers claimed, stored and removed."""

from __future__ import annotations

import pytest
import redis as redis_py

from offsider.core.errors import QueueFull, RedisRefused
from offsider.storage import migration
from offsider.storage.job_sets import MoveResult
from offsider.storage.migration import Step, Transit
from offsider.storage.redis import Redis, RedisSettings
from offsider.storage.store_once import Transfer
from tests.snapshot import snapshot

BULK = Transit("bulk", "bulk")


def stock(raw_redis, count=10):
    raw_redis.lpush("queue:low", *(b"job %d" % number for number in range(count)))


def waiting(raw_redis, queue="low"):
    return raw_redis.lrange(f"queue:{queue}", 0, -1)[::-1]


def step(number, queue="high", server=""):
    return Step(b"job %d" % number, b"moved %d" % number, f"queue:{queue}", server)


def stays(number):
    return Step(b"job %d" % number)


# ---------------------------------------------------------------------------------- on one server


def test_jobs_move_in_order_and_remaining_ones_rotate_to_the_tail(pool, raw_redis):
    stock(raw_redis, 6)
    raw_redis.lpush("queue:high", "first")
    steps = [step(0), stays(1), step(2, "other"), step(3)]
    assert migration.move(pool, pool.keys.queue("low"), steps) == [MoveResult.DONE] * 4
    assert waiting(raw_redis) == [b"job 4", b"job 5", b"job 1"]
    assert waiting(raw_redis, "high") == [b"first", b"moved 0", b"moved 3"]
    assert waiting(raw_redis, "other") == [b"moved 2"]
    assert raw_redis.smembers("queues") == {b"high", b"other"}


def test_jobs_claimed_before_are_skipped_and_the_others_move(pool, raw_redis):
    stock(raw_redis, 5)
    raw_redis.rpop("queue:low", 2)
    assert (
        migration.move(pool, pool.keys.queue("low"), [step(n) for n in range(4)])
        == [MoveResult.GONE] * 2 + [MoveResult.DONE] * 2
    )
    assert waiting(raw_redis) == [b"job 4"]


def test_nothing_moves_when_a_worker_gave_a_job_back(pool, raw_redis):
    stock(raw_redis, 2)
    raw_redis.rpush("queue:low", "back")
    assert migration.move(pool, pool.keys.queue("low"), [step(0), step(1)]) == [MoveResult.GONE] * 2
    assert waiting(raw_redis) == [b"back", b"job 0", b"job 1"]


def test_nothing_moves_from_a_queue_that_is_empty_by_now(pool, raw_redis):
    assert migration.move(pool, pool.keys.queue("low"), [step(0), stays(1)]) == [MoveResult.GONE] * 2
    assert snapshot(raw_redis) == {}


def test_a_queue_of_the_wrong_type_accepts_and_loses_no_job(pool, raw_redis):
    stock(raw_redis, 3)
    raw_redis.set("queue:high", "wrong")
    assert migration.move(pool, pool.keys.queue("low"), [step(0), step(1, "other")]) == [
        MoveResult.REFUSED,
        MoveResult.DONE,
    ]
    assert waiting(raw_redis) == [b"job 2", b"job 0"]


def test_a_job_with_new_bytes_stays_in_its_list(pool, raw_redis):
    stock(raw_redis, 3)
    assert migration.move(pool, pool.keys.queue("low"), [Step(b"job 0", b"other 0")]) == [MoveResult.DONE]
    assert waiting(raw_redis) == [b"job 1", b"job 2", b"other 0"]
    assert not raw_redis.exists("queues")


def test_the_next_jobs_are_those_not_yet_rotated(pool, raw_redis):
    stock(raw_redis, 5)
    assert migration.next_jobs(pool, pool.keys.queue("low"), 2, 0, None) == [b"job 0", b"job 1"]
    assert migration.next_jobs(pool, pool.keys.queue("low"), 500, 2, None) == [b"job 0", b"job 1", b"job 2"]
    assert migration.next_jobs(pool, pool.keys.queue("low"), 500, 5, None) == []
    assert migration.next_jobs(pool, pool.keys.queue("low"), 500, 9, None) == []


def test_the_first_rotated_job_ends_the_turn_after_any_pushes(pool, raw_redis):
    stock(raw_redis, 5)
    assert migration.next_jobs(pool, pool.keys.queue("low"), 500, 2, b"job 3") == [b"job 0", b"job 1", b"job 2"]
    assert migration.next_jobs(pool, pool.keys.queue("low"), 500, 0, b"job 3") == [b"job 0", b"job 1", b"job 2"]
    raw_redis.lpush("queue:low", "job 3")  # the one before it may not have been judged
    assert len(migration.next_jobs(pool, pool.keys.queue("low"), 500, 0, b"job 3")) == 6


def test_members_keep_the_very_score(pool, raw_redis):
    scores = {"a": 1700000000.1234567, "b": float("inf"), "c": -0.1}
    raw_redis.zadd("retry", scores)
    steps = [Step(b"a", b"A"), Step(b"gone", b"G"), Step(b"b", b"B"), Step(b"c")]
    assert migration.move(pool, pool.keys.retry, steps) == [
        MoveResult.DONE,
        MoveResult.GONE,
        MoveResult.DONE,
        MoveResult.DONE,
    ]
    assert snapshot(raw_redis) == {"retry": {b"A": scores["a"], b"B": scores["b"], b"c": scores["c"]}}


def test_a_member_is_not_written_over_its_double(pool, raw_redis):
    raw_redis.zadd("retry", {"a": 1, "A": 2})
    assert migration.move(pool, pool.keys.retry, [Step(b"a", b"A")]) == [MoveResult.REFUSED]
    assert snapshot(raw_redis) == {"retry": {b"a": 1, b"A": 2}}


# ------------------------------------------------------------------------------- between two servers


def transfers(pool, transit=BULK, **count):
    return [job.transfer for job in migration.in_transit(pool, transit, **count)]


def test_jobs_in_transit_keep_their_order_and_their_scores(pool, raw_redis):
    job = b'{"class":"A","args":[],"jid":"j0"}\n'
    raw_redis.lpush("queue:low", "job 0", "job 1")
    raw_redis.zadd("retry", {"job 2": 3.25})
    steps = [Step(b"job 0", job, "queue:high", "bulk"), step(1)]
    assert migration.move(pool, pool.keys.queue("low"), steps) == [MoveResult.DONE] * 2
    assert migration.move(pool, pool.keys.retry, [Step(b"job 2", b"b", "retry", "bulk"), step(9, server="bulk")]) == [
        MoveResult.DONE,
        MoveResult.GONE,
    ]
    assert migration.transits(pool) == [BULK]
    assert migration.waiting(pool, BULK) == 2
    first, second = transfers(pool)
    assert first == Transfer("j0", first.hop, "queue:high", job)
    assert second == Transfer("", second.hop, "retry", b"b", "3.25")
    assert first.hop != second.hop
    assert transfers(pool, count=1) == [first]
    assert raw_redis.exists("queue:low", "retry") == 0


def test_a_queue_of_any_name_is_found_again(pool, raw_redis):
    stock(raw_redis, 1)
    raw_redis.zadd("retry", {"job 1": 1.5})
    queue = "two words\n100% %0A ä"
    migration.move(pool, pool.keys.queue("low"), [step(0, queue, "bulk")])
    migration.move(pool, pool.keys.retry, [step(1, queue, "bulk")])
    assert [transfer.where for transfer in transfers(pool)] == [f"queue:{queue}"] * 2


@pytest.mark.parametrize("wrong", ["offsider:migrating", "offsider:migrating:bulk"])
def test_nothing_leaves_when_it_cannot_be_written(pool, raw_redis, wrong):
    raw_redis.zadd("retry", {"job 3": 3.25})
    stock(raw_redis, 1)
    raw_redis.set(wrong, "wrong")
    for key, number in ((pool.keys.retry, 3), (pool.keys.queue("low"), 0)):
        if wrong == "offsider:migrating":
            with pytest.raises(RedisRefused):
                migration.move(pool, key, [step(number, server="bulk")])
        else:
            assert migration.move(pool, key, [step(number, server="bulk")]) == [MoveResult.REFUSED]
    assert raw_redis.zrange("retry", 0, -1) == [b"job 3"]
    assert waiting(raw_redis) == [b"job 0"]


def test_jobs_that_have_arrived_are_removed_once(pool, raw_redis):
    stock(raw_redis, 3)
    migration.move(pool, pool.keys.queue("low"), [step(n, server="bulk") for n in range(3)])
    jobs = migration.in_transit(pool, BULK)
    assert migration.arrived(pool, BULK, [jobs[0], jobs[2]]) == 2
    assert migration.in_transit(pool, BULK) == [jobs[1]]
    assert migration.arrived(pool, BULK, jobs) == 1
    assert migration.arrived(pool, BULK, []) == 0


def test_a_list_of_an_earlier_revision_is_read(pool, raw_redis):
    raw_redis.sadd("offsider:migrating", "0123456789abcdef bulk")
    raw_redis.lpush("offsider:migrating:0123456789abcdef", "1 - queue:low\n{}", "2 1.5 retry\n[]")
    (transit,) = migration.transits(pool)
    assert transit == Transit("0123456789abcdef", "bulk")
    assert transfers(pool, transit) == [
        Transfer("", "1", "queue:low", b"{}"),
        Transfer("", "2", "retry", b"[]", "1.5"),
    ]


def test_a_full_server_refuses_the_probe(make_server):
    server = make_server()
    full = Redis(RedisSettings(url=server.url), size=1)
    with redis_py.Redis.from_url(server.url) as client:
        client.config_set("maxmemory", 1)
    with pytest.raises(QueueFull):
        migration.probe(full)
    full.close()


def test_two_addresses_of_one_database_are_the_same(pool, other_url, raw_redis):
    other = Redis(RedisSettings(url=other_url), size=1)
    assert migration.are_same(pool, pool)
    assert not migration.are_same(pool, other)
    assert all(0 < raw_redis.ttl(key) <= 10 for key in raw_redis.keys("offsider:stored:probe:*"))
    other.close()
