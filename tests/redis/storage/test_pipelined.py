"""An exchange that is sent now and read later."""

from __future__ import annotations

import pytest
from redis import connection

from offsider.core.errors import Fenced, RedisRefused, RedisUnavailable
from offsider.storage import redis as redis_module, working
from offsider.storage.working import Owner, Pipelined
from tests.snapshot import snapshot
from tests.waiting import wait_for

OWNER = Owner("host:1:aaaaaaaaaaaa", "default")
PRIVATE = "offsider:working:host:1:aaaaaaaaaaaa:default:low"


@pytest.fixture
def ahead(pool, raw_redis):
    raw_redis.script_load(working.ACK_AND_CLAIM.text)
    ahead = Pipelined(pool)
    yield ahead
    ahead.close()


@pytest.fixture
def faulty(proxied, raw_redis):
    raw_redis.script_load(working.ACK_AND_CLAIM.text)
    ahead = Pipelined(proxied)
    yield ahead
    ahead.close()


@pytest.fixture(params=["installed", "redis-py"])
def parser(request, monkeypatch):
    if request.param == "redis-py":
        options = redis_module.connection_options
        own = {"parser_class": connection._RESP2Parser}
        monkeypatch.setattr(redis_module, "connection_options", lambda *given, **named: options(*given, **named) | own)


def test_a_request_is_executed_before_its_reply_is_read(ahead, raw_redis):
    raw_redis.lpush("queue:low", "a", "b", "c")
    raw_redis.lpush(PRIVATE, "done")
    ahead.ask(OWNER, ["high", "low"], 2, [("low", b"done"), ("low", b"gone")])
    wait_for(lambda: snapshot(raw_redis) == {"queue:low": [b"c"], PRIVATE: [b"b", b"a"]})
    result = ahead.answer(["high", "low"])
    assert result.claimed == [("low", b"a"), ("low", b"b")]
    assert result.gone == [1]


def test_a_fence_is_reported_with_the_reply(ahead, pool, raw_redis):
    raw_redis.lpush("queue:low", "a")
    raw_redis.set(pool.keys.fenced(OWNER.identity), "0 0")
    ahead.ask(OWNER, ["low"], 1, [])
    with pytest.raises(Fenced):
        ahead.answer(["low"])
    assert raw_redis.lrange("queue:low", 0, -1) == [b"a"]


def test_a_flushed_script_is_reported_and_has_no_effect(ahead, raw_redis):
    raw_redis.script_flush()
    raw_redis.lpush("queue:low", "a")
    ahead.ask(OWNER, ["low"], 1, [])
    with pytest.raises(RedisRefused) as refusal:
        ahead.answer(["low"])
    assert refusal.value.code == "NOSCRIPT"
    assert raw_redis.lrange("queue:low", 0, -1) == [b"a"]


def test_a_connection_that_breaks_in_between_leaves_all_of_it_in_doubt(faulty, proxy, raw_redis):
    raw_redis.lpush("queue:low", "a")
    proxy.lose_reply(working.ACK_AND_CLAIM.sha.encode())
    faulty.ask(OWNER, ["low"], 1, [])
    with pytest.raises(RedisUnavailable) as failure:
        faulty.answer(["low"])
    assert failure.value.ambiguous
    assert raw_redis.lrange(PRIVATE, 0, -1) == [b"a"]
    raw_redis.lpush("queue:low", "b")
    faulty.ask(OWNER, ["low"], 1, [])
    assert faulty.answer(["low"]).claimed == [("low", b"b")]


def test_a_reset_before_a_reply_is_read_leaves_all_requests_in_doubt(parser, faulty, proxy, raw_redis):
    """redis-py's parser closes the connection when it looks for data, and a second look would open a new one."""
    faulty.ask(OWNER, ["low"], 1, [])
    faulty.answer(["low"])
    raw_redis.lpush("queue:low", "a", "b")
    proxy.hold()
    faulty.ask(OWNER, ["low"], 1, [])
    assert proxy.holding.wait(20)
    faulty.ask(OWNER, ["low"], 1, [])
    wait_for(lambda: raw_redis.llen("queue:low") == 0)
    proxy.reset()
    wait_for(lambda: faulty.readable)
    assert faulty.readable
    with pytest.raises(RedisUnavailable) as failure:
        faulty.answer(["low"])
    assert failure.value.ambiguous
    assert not faulty.awaits
    proxy.release()
    raw_redis.lpush("queue:low", "c")
    faulty.ask(OWNER, ["low"], 1, [])
    assert faulty.answer(["low"]).claimed == [("low", b"c")]


@pytest.mark.not_on_cluster("REPLICAOF is not allowed on a node")
def test_a_server_that_became_a_replica_is_asked_on_another_connection(ahead, raw_redis):
    """The old connection would lead to the replica for ever."""
    ahead.ask(OWNER, ["low"], 1, [])
    ahead.answer(["low"])
    connections = ahead._wire._connections
    raw_redis.replicaof("127.0.0.1", "1")
    try:
        ahead.ask(OWNER, ["low"], 1, [])
        with pytest.raises(RedisRefused, match="read only"):
            ahead.answer(["low"])
    finally:
        raw_redis.replicaof("NO", "ONE")
    ahead.ask(OWNER, ["low"], 1, [])
    ahead.answer(["low"])
    assert ahead._wire._connections == connections + 1
