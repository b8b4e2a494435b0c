"""Each process tells which jobs it can run, for as long as it is seen."""

import pytest

from offsider.storage import registered
from tests.snapshot import snapshot

OURS, RUBYS = "host:1:aaaaaaaaaaaa", "host:2:bbbbbbbbbbbb"
KEY = f"offsider:classes:{OURS}"


def test_what_a_process_knows_is_seen_for_a_minute(pool, raw_redis):
    registered.publish(pool, OURS, {"é": "2", "b.Job": "1"})
    assert snapshot(raw_redis) == {KEY: '{"b.Job":"1","é":"2"}'.encode()}
    assert 50 < raw_redis.ttl(KEY) <= 60
    assert registered.known_to(pool, [OURS, RUBYS]) == {OURS: {"b.Job": "1", "é": "2"}}


def test_telling_again_replaces_what_was_told(pool, raw_redis):
    registered.publish(pool, OURS, {"a": "1", "b": "1"})
    raw_redis.expire(KEY, 5)
    registered.publish(pool, OURS, {"c": "1"})
    assert registered.known_to(pool, [OURS]) == {OURS: {"c": "1"}}
    assert raw_redis.ttl(KEY) > 50


def test_a_process_that_leaves_tells_nothing_any_more(pool, raw_redis):
    registered.publish(pool, OURS, {"a": "1"})
    registered.withdraw(pool, OURS)
    assert snapshot(raw_redis) == {}


@pytest.mark.parametrize("raw", [b"", b"no json", b'["a"]', b"[" * 100_000, b"\xff"])
def test_what_cannot_be_read_is_nothing_told(pool, raw_redis, raw):
    raw_redis.set(KEY, raw)
    assert registered.known_to(pool, [OURS]) == {}


def test_without_processes_nobody_is_asked(pool):
    assert registered.known_to(pool, []) == {}
