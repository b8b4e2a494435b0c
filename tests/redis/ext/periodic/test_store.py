"""The claim decides alone, and a push that fails claims nothing."""

from __future__ import annotations

import pytest
import redis as redis_py

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import QueueFull
from offsider.ext.periodic.entry import make
from offsider.ext.periodic.store import HISTORY_SECONDS, Claimed, HistoryLine, PeriodicStore
from offsider.storage.keys import Keys
from offsider.storage.queues import store_call

AT = 1_772_366_400


@pytest.fixture
def store(config) -> PeriodicStore:
    return PeriodicStore(Installation.of(config).redis)


PUSH = store_call(Keys(), [(b"{}", None)], "low")


def tick(at: int = AT) -> HistoryLine:
    return HistoryLine("tick", at, at + 0.5, "ab", by="me")


def test_a_claim_notes_the_tick_and_pushes_the_job_in_one_step(store, raw_redis):
    store.take_lease("n", "me")
    assert store.claim("n", tick(), PUSH) == (Claimed.DONE, 1)
    assert raw_redis.lrange("queue:low", 0, -1) == [b"{}"]
    assert raw_redis.smembers("queues") == {b"low"}
    assert raw_redis.hgetall("offsider:periodic:ticks") == {b"n": str(AT).encode()}
    assert store.history("n") == [tick()]
    assert HISTORY_SECONDS - 100 < raw_redis.ttl("offsider:periodic:history:n") <= HISTORY_SECONDS
    assert not raw_redis.exists("offsider:periodic:lease:n")


def test_a_full_server_refuses_the_job_and_its_tick_stays(make_server):
    server = make_server(maxmemory_policy="noeviction")
    config = Config()
    config.redis.url = server.url
    store = PeriodicStore(Installation.of(config).redis)
    with redis_py.Redis.from_url(server.url) as raw:
        assert store.look({"n": AT - 60}).ticks == {"n": AT - 60}
        raw.config_set("maxmemory", 1)
        with pytest.raises(QueueFull):
            store.claim("n", tick(), PUSH)
        assert store.look({"n": 0}).ticks == {"n": AT - 60}
    Installation.of(config).close()


def test_a_new_job_starts_now_or_at_the_tick_that_the_caller_remembers(store, raw_redis):
    looked = store.look({"new": 0, "known": AT})
    assert looked.ticks["known"] == AT
    assert 0 <= looked.at - looked.ticks["new"] < 1
    assert looked.at <= looked.now() < looked.at + 60
    again = store.look({"new": 0, "known": 5})
    assert again.ticks == looked.ticks


def test_invalid_stored_lines_and_entries_are_ignored(store, raw_redis):
    raw_redis.lpush("offsider:periodic:history:n", "{", '{"odd":1}')
    store.note("n", tick())
    assert store.history("n") == [tick()]
    raw_redis.lpush("offsider:periodic:history:m", "{")
    assert store.last_lines(["n", "m", "o"]) == {"n": tick()}
    assert store.last_lines([]) == {}
    raw_redis.hset("offsider:periodic:entries", "odd", "[]")
    assert store.added() == []


def test_registries_of_processes_show_where_they_differ(store, raw_redis):
    old, new, only = make("n", "@daily", "A"), make("n", "@hourly", "A"), make("o", "@daily", "A")
    store.publish([new], since=2.0, now=1e9)
    store.publish([old, only], since=1.0, now=1e9)
    store.publish([old, only], since=1.0, now=1e9)
    assert store.published() == {"n": [new, old], "o": [only]}
    for key in raw_redis.scan_iter("offsider:periodic:program:*"):
        assert 0 < raw_redis.ttl(key) <= 180
        raw_redis.delete(key)
    assert store.published() == {}
    store.publish([new], since=2.0, now=2e9)
    assert raw_redis.zcard("offsider:periodic:programs") == 1
