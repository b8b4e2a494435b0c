"""Pushes of blocking code and of coroutines, to real servers: stored jobs, and the meaning of errors."""

import asyncio
import time

import pytest
import redis

from offsider.client import Client, client as clients
from offsider.config import test_mode
from offsider.core.errors import NotReplicated, RedisRefused, RedisUnavailable
from offsider.core.payload import decode
from offsider.storage import server_version
from tests.redis.client.clients import config_for
from tests.snapshot import snapshot


def test_a_push_stores_the_job_and_registers_the_queue(make_client, redis_url, raw_redis):
    jid = make_client(config_for(redis_url)).push({"class": "HardJob", "args": [1], "queue": "low"})
    stored = snapshot(raw_redis)
    assert stored["queues"] == {b"low"}
    assert [decode(raw)["jid"] for raw in stored.pop("queue:low")] == [jid]
    assert set(stored) == {"queues"}


def test_a_scheduled_push_is_in_the_schedule_alone(make_client, redis_url, raw_redis):
    make_client(config_for(redis_url)).push({"class": "HardJob", "args": [1], "at": 4_102_444_802.25})
    stored = snapshot(raw_redis)
    assert set(stored) == {"schedule"}
    ((raw, score),) = stored["schedule"].items()
    assert score == 4_102_444_802.25
    assert "at" not in decode(raw)


def test_a_bulk_push_keeps_the_order_in_which_jobs_run(make_client, redis_url, raw_redis):
    jids = make_client(config_for(redis_url)).push_bulk({"class": "X", "args": [[n] for n in range(2500)]})
    run_order = [decode(raw) for raw in reversed(raw_redis.lrange("queue:default", 0, -1))]
    assert [payload["args"] for payload in run_order] == [[n] for n in range(2500)]
    assert [payload["jid"] for payload in run_order] == jids


def test_the_key_prefix_is_before_every_key(make_client, redis_url, raw_redis, tag):
    config = config_for(redis_url)
    config.redis.key_prefix = f"{tag}resque:gitlab:"
    client = make_client(config)
    client.push({"class": "X", "args": []})
    client.push({"class": "X", "args": [], "at": 60})
    assert set(snapshot(raw_redis)) == {"resque:gitlab:queues", "resque:gitlab:queue:default", "resque:gitlab:schedule"}


def test_a_job_without_the_required_replicas_is_stored_and_reported(make_client, redis_url, raw_redis, replicas):
    with pytest.raises(NotReplicated) as caught:
        make_client(config_for(redis_url)).push({"class": "X", "args": [], "jid": "abc"}, wait_replicas=replicas + 1)
    assert (caught.value.jid, caught.value.reached) == ("abc", replicas)
    assert raw_redis.llen("queue:default") == 1


def test_a_refusal_that_passes_is_repeated_unseen(redis_url, raw_redis):
    client = Client(config_for(redis_url))
    client.redis.check_server()
    exchange = client.redis.pipeline
    deadlines = []

    def failing_once(commands, *, raise_errors=True, deadline=None, check=None):
        deadlines.append(deadline)
        if len(deadlines) == 1:
            return [RedisRefused("READONLY You can't write against a read only replica.", code="READONLY")] * 2
        return exchange(commands, raise_errors=raise_errors, deadline=deadline)

    client.redis.pipeline = failing_once
    assert client.push({"class": "X", "args": []})
    assert len(deadlines) == 2
    assert deadlines[0] == deadlines[1] <= time.monotonic() + 1
    assert raw_redis.llen("queue:default") == 1


def test_an_ambiguous_failure_is_never_repeated(redis_url, raw_redis):
    client = Client(config_for(redis_url))
    client.redis.check_server()
    exchange = client.redis.pipeline

    def losing_the_reply(commands, **more):
        exchange(commands, **more)
        raise RedisUnavailable("gone", ambiguous=True)

    client.redis.pipeline = losing_the_reply
    with pytest.raises(RedisUnavailable):
        client.push({"class": "X", "args": []})
    assert raw_redis.llen("queue:default") == 1


def test_a_client_that_never_pushed_can_be_closed(embedded_url):
    Client(config_for(embedded_url)).close()


def test_each_job_is_pushed_to_the_server_of_its_route_and_a_batch_as_a_whole(
    make_client, redis_url, raw_redis, other_url
):
    config = config_for(redis_url)
    bulk = config.add_server("bulk", url=other_url, key_prefix="b:")
    client = make_client(config)
    jid = client.push({"class": "HardJob", "args": [1]})
    other = client.push({"class": "HardJob", "args": [2], "server": "bulk"})
    jids = client.push_bulk({"class": "HardJob", "args": [[3], [4]], "server": "bulk", "at": 4_102_444_801})
    assert [decode(raw)["jid"] for raw in raw_redis.lrange("queue:default", 0, -1)] == [jid]
    with redis.Redis.from_url(bulk.url) as there:
        assert [decode(raw)["jid"] for raw in there.lrange("b:queue:default", 0, -1)] == [other]
        assert {decode(raw)["jid"] for raw in there.zrange("b:schedule", 0, -1)} == set(jids)
        # Both servers record the routing rules of the client.
        assert there.exists("b:offsider:clients") == raw_redis.exists("offsider:clients") == 1


@pytest.mark.parametrize("slots", [None, (0, 8191), (0, 16383)], ids=["no slots", "half of the slots", "all slots"])
@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_a_push_to_a_cluster_is_refused_as_a_worker_is_and_nothing_is_stored(make_server, make_client, kind, slots):
    server = make_server(kind=kind, port=0, cluster_enabled="yes")
    refused = pytest.raises(RedisRefused, match="is a node of a Cluster: write its URL as redis")
    with redis.Redis.from_url(server.url) as raw:
        if slots is not None:
            raw.execute_command("CLUSTER", "ADDSLOTSRANGE", *slots)
        client = make_client(config_for(server.url))
        for item in ({"queue": "a"}, {"queue": "b"}, {"queue": "c"}, {"queue": "d"}, {"at": time.time() + 60}):
            with refused:
                client.push({"class": "X", "args": [], **item})
        with refused:
            client.push_bulk({"class": "X", "args": [[]]})
        assert raw.dbsize() == 0


def test_an_unsupported_version_warns_once_per_server(make_client, redis_url, raw_redis, monkeypatch, caplog):
    monkeypatch.setattr(server_version, "MIN_VERSIONS", {"redis": (99, 0), "valkey": (99, 0)})
    monkeypatch.setattr(server_version, "_warned", set())
    for _ in range(2):
        make_client(config_for(redis_url)).push({"class": "X", "args": []})
    (warning,) = caplog.messages
    assert warning.startswith(redis_url.partition("?")[0])
    assert "which workers refuse: upgrade to Redis 7.0, Valkey 7.2 or newer" in warning
    assert raw_redis.llen("queue:default") == 2


@pytest.mark.parametrize("oldest", [(99, 0), (7, 0)])
def test_a_server_without_hello_is_asked_for_its_version(make_server, make_client, monkeypatch, caplog, oldest):
    monkeypatch.setattr(server_version, "MIN_VERSIONS", {"redis": oldest, "valkey": oldest})
    monkeypatch.setattr(server_version, "_warned", set())
    client = make_client(config_for(make_server(without=["HELLO"]).url))
    for _ in range(2):
        client.push({"class": "X", "args": []})
    assert ["which workers refuse" in message for message in caplog.messages] == [True] * (oldest == (99, 0))


def test_a_blocking_push_on_an_event_loop_warns(redis_url, monkeypatch, caplog):
    monkeypatch.setattr(test_mode, "is_test", lambda: False)
    monkeypatch.setattr(clients, "_warned", set())
    client = Client(config_for(redis_url))

    async def view() -> None:
        client.push({"class": "X", "args": []})
        client.push_bulk({"class": "X", "args": [[1]]})

    asyncio.run(view())
    assert len(caplog.messages) == 2
    assert all("test_client.py" in message for message in caplog.messages)
    client.close()
