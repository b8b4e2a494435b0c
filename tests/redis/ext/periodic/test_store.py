"""The claim decides alone, and a push that fails claims nothing."""

from __future__ import annotations

import pytest
import redis as redis_py

from offsider import Client
from offsider.client.prepared import Prepared
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import QueueFull, RedisRefused
from offsider.ext.periodic.entry import make
from offsider.ext.periodic.store import HISTORY_SECONDS, Claimed, HistoryLine, PeriodicStore
from tests.snapshot import snapshot

AT = 1_772_366_400


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    yield config
    Installation.of(config).close()


@pytest.fixture
def store(config) -> PeriodicStore:
    return PeriodicStore(Installation.of(config).redis)


@pytest.fixture
def prepared(config) -> Prepared:
    client = Client(config)
    found = client.prepare(client.build({"class": "A", "args": [], "queue": "low"}))
    assert found is not None
    return found


def tick(at: int = AT) -> HistoryLine:
    return HistoryLine("tick", at, at + 0.5, "ab", by="me")


def test_a_claim_notes_the_tick_and_pushes_the_job_in_one_step(store, prepared, raw_redis):
    store.take_lease("n", "me")
    assert store.claim("n", tick(), prepared) is Claimed.DONE
    assert raw_redis.lrange("queue:low", 0, -1) == [prepared.raw]
    assert raw_redis.smembers("queues") == {b"low"}
    assert raw_redis.hgetall("offsider:periodic:ticks") == {b"n": str(AT).encode()}
    assert store.history("n") == [tick()]
    assert HISTORY_SECONDS - 100 < raw_redis.ttl("offsider:periodic:history:n") <= HISTORY_SECONDS
    assert not raw_redis.exists("offsider:periodic:turn:n")


def test_a_handled_tick_is_not_claimed_again(store, prepared, raw_redis):
    store.claim("n", tick(), prepared)
    before = snapshot(raw_redis)
    assert store.claim("n", tick(), prepared) is Claimed.GONE
    assert store.claim("n", tick(AT - 60), prepared) is Claimed.GONE
    assert snapshot(raw_redis) == before


def test_future_ticks_and_ticks_of_paused_jobs_are_not_claimed(store, prepared, raw_redis):
    store.pause("n")
    before = snapshot(raw_redis)
    assert store.claim("n", tick(4_000_000_000), prepared) is Claimed.EARLY
    assert store.claim("n", tick(), prepared) is Claimed.PAUSED
    assert snapshot(raw_redis) == before


def test_a_claim_whose_push_is_refused_changes_nothing(store, prepared, raw_redis):
    raw_redis.set("queue:low", "x")
    before = snapshot(raw_redis)
    with pytest.raises(RedisRefused, match="WRONGTYPE"):
        store.claim("n", tick(), prepared)
    assert snapshot(raw_redis) == before


def test_a_full_server_refuses_the_job_and_its_tick_stays(make_server, prepared):
    server = make_server(maxmemory_policy="noeviction")
    config = Config()
    config.redis.url = server.url
    store = PeriodicStore(Installation.of(config).redis)
    with redis_py.Redis.from_url(server.url) as raw:
        assert store.look({"n": AT - 60}).ticks == {"n": AT - 60}
        raw.config_set("maxmemory", 1)
        with pytest.raises(QueueFull):
            store.claim("n", tick(), prepared)
        assert store.look({"n": 0}).ticks == {"n": AT - 60}
    Installation.of(config).close()


def test_a_new_job_starts_now_or_at_the_tick_that_the_caller_remembers(store, raw_redis):
    looked = store.look({"new": 0, "known": AT})
    assert looked.ticks["known"] == AT
    assert 0 <= looked.at - looked.ticks["new"] < 1
    assert looked.at <= looked.now() < looked.at + 60
    again = store.look({"new": 0, "known": 5})
    assert again.ticks == looked.ticks


def test_only_one_has_the_turn_until_it_ends(store, raw_redis):
    assert store.take_lease("n", "a") == 0
    assert 0 < store.take_lease("n", "b") <= 5
    assert store.take_lease("n", "a") == 0
    raw_redis.persist("offsider:periodic:turn:n")
    assert store.take_lease("n", "b") == 0.001


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
    for key in raw_redis.scan_iter("offsider:periodic:register:*"):
        assert 0 < raw_redis.ttl(key) <= 180
        raw_redis.delete(key)
    assert store.published() == {}
    store.publish([new], since=2.0, now=2e9)
    assert raw_redis.zcard("offsider:periodic:registers") == 1


def test_every_key_has_the_prefix(redis_url, raw_redis, prepared, tag):
    config = Config()
    config.redis.url, config.redis.key_prefix = redis_url, f"{tag}app:"
    store = PeriodicStore(Installation.of(config).redis)
    store.look({"n": 0})
    store.add(make("later", "@daily", "A"))
    store.take_lease("n", "me")
    store.publish([make("n", "@daily", "A")], 1.0, 1e9)
    store.pause("n")
    store.resume("n")
    store.pause("n")
    store.note("n", tick())
    store.remove("later")
    store.add(make("later", "@daily", "A"))
    keys = {key.decode() for key in raw_redis.scan_iter()}
    assert all(key.startswith("app:offsider:periodic:") for key in keys)
    kinds = {key.removeprefix("app:offsider:periodic:").partition(":")[0] for key in keys}
    assert kinds == {"ticks", "entries", "paused", "history", "turn", "registers", "register"}
    Installation.of(config).close()
