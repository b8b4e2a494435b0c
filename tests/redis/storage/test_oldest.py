"""Since when the next job of each queue has waited, however big it is."""

import json

import pytest

from offsider.core.errors import RedisRefused
from offsider.storage import queues
from offsider.storage.queues import enqueued_at


def test_each_queue_has_the_enqueue_time_of_its_next_job(pool, raw_redis):
    raw_redis.lpush("queue:ms", '{"class":"X","args":[],"enqueued_at":5500}', "later")
    raw_redis.lpush("queue:seconds", '{"class":"X","args":[],"enqueued_at":5.25}')
    raw_redis.lpush("queue:silent", '{"class":"X","args":[]}')
    raw_redis.lpush("queue:odd", b"\xff no job")
    raw_redis.set("queue:wrong", "no list")
    names = ["ms", "none", "seconds", "silent", "odd", "wrong"]
    assert enqueued_at(pool, names) == [5.5, None, 5.25, None, None, None]


@pytest.mark.parametrize("stamp, seconds", [(1795216780652, 1795216780.652), (1795216780.652, 1795216780.652)])
@pytest.mark.parametrize("first", [True, False])
def test_a_huge_job_is_not_read_to_find_out(pool, raw_redis, stamp, seconds, first):
    arguments = {"args": ["x" * 1_000_000, '"enqueued_at":7']}
    times = {"enqueued_at": stamp}
    payload = {"class": "X"} | (times | arguments if first else arguments | times)
    raw_redis.lpush("queue:big", json.dumps(payload, separators=(",", ":")))
    raw_redis.config_resetstat()
    assert enqueued_at(pool, ["big"]) == [seconds]
    assert raw_redis.info("stats")["total_net_output_bytes"] < 100_000


def test_a_huge_job_without_a_time_is_unknown(pool, raw_redis):
    raw_redis.lpush("queue:big", b"x" * 100_000)
    assert enqueued_at(pool, ["big"]) == [None]


def test_a_server_that_has_forgotten_the_script_is_asked_again(pool, raw_redis):
    raw_redis.lpush("queue:low", '{"class":"X","args":[],"enqueued_at":5500}')
    raw_redis.script_flush()
    (reply,) = pool.pipeline([queues.oldest_command(pool, ["low"])], raise_errors=False)
    assert isinstance(reply, RedisRefused)
    assert enqueued_at(pool, ["low"], reply) == [5.5]
    (reply,) = pool.pipeline([queues.oldest_command(pool, ["low"])])
    assert enqueued_at(pool, ["low"], reply) == [5.5]


def test_another_refusal_is_raised(pool):
    with pytest.raises(RedisRefused, match="NOPERM"):
        enqueued_at(pool, ["low"], RedisRefused("NOPERM no scripts", code="NOPERM"))
