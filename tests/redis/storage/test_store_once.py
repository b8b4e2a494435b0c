"""A job from elsewhere is stored once, however often its transfer is repeated."""

from __future__ import annotations

import pytest

from offsider.core.errors import RedisRefused
from offsider.storage.scripts import Script
from offsider.storage.store_once import PUSH_ONCE, REMEMBERED_SECONDS, Transfer, run_once, store_once
from tests.snapshot import snapshot

TO_QUEUE = Transfer("j1", "h1", "queue:high", b"a")
TO_SET = Transfer("j2", "h2", "retry", b"b", "1700000000.1234567")


def test_a_repeated_transfer_stores_nothing(pool, raw_redis):
    assert store_once(pool, [TO_QUEUE, TO_SET]) == [None, None]
    raw_redis.rpop("queue:high")
    assert store_once(pool, [TO_QUEUE, TO_SET]) == [None, None]
    assert snapshot(raw_redis) == {
        "queues": {b"high"},
        "retry": {b"b": 1700000000.1234567},
        "offsider:stored:j1:h1": b"1",
        "offsider:stored:j2:h2": b"1",
    }


def test_a_server_remembers_a_transfer_for_a_day(pool, raw_redis):
    store_once(pool, [TO_QUEUE])
    assert 86_000 < raw_redis.ttl("offsider:stored:j1:h1") <= REMEMBERED_SECONDS == 86_400
    raw_redis.delete("offsider:stored:j1:h1")  # as after a day
    store_once(pool, [TO_QUEUE])
    assert raw_redis.llen("queue:high") == 2


def test_a_refused_job_is_not_remembered_and_stops_no_other(pool, raw_redis):
    raw_redis.set("queue:high", "wrong")
    refused, stored = store_once(pool, [TO_QUEUE, TO_SET])
    assert "WRONGTYPE" in str(refused)
    assert f"({pool.keys.queue('high')})" in str(refused)
    assert stored is None
    raw_redis.delete("queue:high")
    assert store_once(pool, [TO_QUEUE, TO_SET]) == [None, None]
    assert raw_redis.lrange("queue:high", 0, -1) == [b"a"]


GUARD = Script(
    "guard",
    source="""#!lua
-- KEYS[1] queue
-- ARGV[1] payload
local stored = redis.pcall('LPUSH', KEYS[1], ARGV[1])
if type(stored) == 'table' then return stored end
return {ARGV[1]}
""",
)


def test_the_script_of_a_push_guard_runs_once_too(pool, raw_redis):
    call = (GUARD, [pool.keys.queue("high")], ["a"])
    assert run_once(pool, "j1", "h1", call) == (True, [b"a"])
    assert run_once(pool, "j1", "h1", call) == (False, None)
    assert raw_redis.llen("queue:high") == 1
    assert 86_000 < raw_redis.ttl("offsider:stored:j1:h1") <= REMEMBERED_SECONDS


def test_a_script_of_a_push_guard_that_fails_leaves_no_mark(pool, raw_redis):
    raw_redis.set("queue:high", "wrong")
    with pytest.raises(RedisRefused, match="WRONGTYPE"):
        run_once(pool, "j1", "h1", (GUARD, [pool.keys.queue("high")], ["a"]))
    assert not raw_redis.exists("offsider:stored:j1:h1")


def test_a_full_server_refuses_new_jobs_but_no_transfers(pool, raw_redis):
    raw_redis.config_set("maxmemory", "1")
    try:
        with pytest.raises(RedisRefused, match="out of memory"):
            store_once(pool, [TO_QUEUE], PUSH_ONCE)
        assert store_once(pool, [TO_QUEUE]) == [None]
    finally:
        raw_redis.config_set("maxmemory", "0")
