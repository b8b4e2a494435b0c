"""A Cluster: connections go to the primary of the hash tag, and follow the slot to other nodes."""

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
import redis as redis_py

from offsider import Config, job
from offsider.config.default import set_default_config
from offsider.core.errors import ConfigurationError, RedisRefused, RedisUnavailable
from offsider.jobs import registry
from offsider.storage.async_redis import AsyncRedis
from offsider.storage.cluster import Nodes, redirected
from offsider.storage.redis import Redis, RedisSettings
from offsider.storage.scripts import Script
from offsider.storage.server_info import server_info
from offsider.worker.embed import EmbeddedWorker
from tests.redis.storage.every_verb import left_behind, seed, walk
from tests.snapshot import snapshot
from tests.waiting import wait_for

REFUSED = RedisUnavailable("TRYAGAIN", code="TRYAGAIN")
PAIR = Script("pair", source="-- KEYS[1] a\n-- KEYS[2] b\nreturn redis.call('INCR', KEYS[1])\n")


@pytest.fixture
def pool(cluster):
    pool = Redis(RedisSettings(url=cluster.url), size=2)
    yield pool
    pool.close()


@pytest.fixture
def run_async(cluster):
    """Run a function of an AsyncRedis."""

    def run(function, **given):
        async def call():
            pool = AsyncRedis(RedisSettings(**({"url": cluster.url} | given)), size=1)
            try:
                return await function(pool)
            finally:
                await pool.close()

        return asyncio.run(call())

    return run


def test_every_verb_works_with_the_default_prefix(cluster, pool):
    with cluster.primary().raw as raw:
        seed(raw, pool.keys)
        walk(pool)
        assert all(key.startswith("{offsider}:") for key in snapshot(raw))
        left_behind(pool.keys, snapshot(raw))


def test_a_cluster_is_not_refused_before_a_push(pool, run_async):
    pool.check_server()
    run_async(lambda pool: pool.check_server())


def test_servers_with_different_tags_are_on_different_primaries(cluster):
    places = set()
    for tag in ("a", "b", "c"):
        pool = Redis(RedisSettings(url=cluster.url, key_prefix=f"{{{tag}}}:"), size=1)
        assert pool.cluster_place == ""
        assert pool.call("SET", f"{pool.keys.prefix}k", tag) == b"OK"
        assert pool.cluster_place.startswith(f"hash tag {{{tag}}}, slot ")
        assert pool.cluster_place.endswith(cluster.primary(tag).address)
        places.add(cluster.primary(tag).address)
        pool.close()
    assert len(places) == 3


@pytest.mark.parametrize("prefix", ["shop:", "{}:", "{shop"])
def test_a_prefix_without_a_hash_tag_is_refused_with_one_to_use(prefix):
    with pytest.raises(ConfigurationError, match=r"^redis\.key_prefix: .*example '\{(shop|offsider)\}:'$"):
        Redis(RedisSettings(url="redis+cluster://localhost", key_prefix=prefix), size=1).call("PING")


def test_a_cluster_with_sentinels_is_refused():
    settings = RedisSettings(url="redis+cluster://localhost", sentinels=("a:1",), sentinel_name="m")
    with pytest.raises(ConfigurationError, match=r"^redis\.sentinels: .* leave them out"):
        Redis(settings, size=1).call("PING")


def test_seeds_that_do_not_reply_are_passed_over(cluster, run_async):
    url = cluster.url.replace("://", "://127.0.0.1:1,")
    pool = Redis(RedisSettings(url=url), size=1)
    assert pool.call("SET", "{offsider}:k", 1) == b"OK"
    pool.close()
    assert run_async(lambda other: other.call("GET", "{offsider}:k"), url=url) == b"1"


def test_a_single_server_among_the_seeds_gets_no_jobs(cluster, make_server, run_async):
    port = make_server(port=0).url.rpartition(":")[2].partition("/")[0]
    single = f"127.0.0.1:{port}"
    url = cluster.url.replace("://", f"://{single},")
    pool = Redis(RedisSettings(url=url), size=1)
    assert pool.call("SET", "{offsider}:k", 1) == b"OK"
    assert pool.cluster_place.endswith(cluster.primary().address)
    pool.close()
    assert run_async(lambda other: other.call("GET", "{offsider}:k"), url=url) == b"1"
    away = f"redis+cluster://{single},127.0.0.1:1"  # the nodes of the Cluster do not reply
    with pytest.raises(RedisUnavailable, match="returned a primary"):
        Redis(RedisSettings(url=away), size=1).call("SET", "{offsider}:k", 1)
    with pytest.raises(RedisUnavailable, match="returned a primary"):
        run_async(lambda other: other.call("SET", "{offsider}:k", 1), url=away)
    alone = f"redis+cluster://{single},localhost:{port}"  # two names of one server
    pool = Redis(RedisSettings(url=alone), size=1)
    assert pool.call("GET", "{offsider}:k") is None
    assert pool.cluster_place.endswith(single)
    pool.close()
    assert run_async(lambda other: other.call("GET", "{offsider}:k"), url=alone) is None


def test_a_cluster_that_does_not_serve_the_slot_is_unavailable(make_server, run_async):
    address = make_server(port=0, cluster_enabled="yes").url.partition("://")[2].partition("/")[0]
    url = f"redis+cluster://127.0.0.1:1,{address}"
    with pytest.raises(RedisUnavailable, match=r"^no node of the Cluster serves slot 8428: ") as failure:
        Redis(RedisSettings(url=url), size=1).call("PING")
    assert not failure.value.ambiguous
    assert f"run redis-cli --cluster check {address}, and redis-cli --cluster fix {address}" in str(failure.value)
    with pytest.raises(RedisUnavailable, match=r"^no node of the Cluster serves slot"):
        run_async(lambda other: other.call("PING"), url=url)


def test_a_server_that_refuses_the_cluster_command_is_used(make_server, run_async):
    """The nodes of a restricted Cluster redirect the first command; a proxy needs no redirection."""
    server = make_server(port=0, without=["CLUSTER"])
    url = server.url.replace("redis://", "redis+cluster://")
    pool = Redis(RedisSettings(url=url), size=1)
    assert pool.call("SET", "{offsider}:k", 1) == b"OK"
    pool.close()
    assert run_async(lambda other: other.call("GET", "{offsider}:k"), url=url) == b"1"


@contextmanager
def forbidden(cluster, *commands):
    """Forbid commands on all nodes of a Cluster."""
    for node in cluster.nodes:
        node.raw.execute_command("ACL", "SETUSER", "default", *(f"-{command}" for command in commands))
    try:
        yield
    finally:
        for node in cluster.nodes:
            with suppress(redis_py.ConnectionError):  # killed; it starts without the ACL
                node.raw.execute_command("ACL", "SETUSER", "default", "+@all")


def refused_commands(node):
    """The commands that a node has refused because they are forbidden."""
    return {entry["object"] for entry in node.raw.acl_log()}


def test_nodes_that_refuse_the_cluster_command_redirect_to_the_primary(cluster, run_async):
    with forbidden(cluster, "cluster|slots"):
        for node in cluster.nodes:  # also replicas, and primaries of other slots
            url = f"redis+cluster://{node.address}"
            pool = Redis(RedisSettings(url=url), size=1)
            info = server_info(pool)
            assert info.role == "master"
            assert info.cluster.endswith(cluster.primary().address)
            pool.close()
            assert run_async(lambda other: other.call("ROLE"), url=url)[0] == b"master"


def test_a_wrong_password_is_a_refusal_on_every_node(cluster, run_async):
    with pytest.raises(RedisRefused) as refused:
        Redis(RedisSettings(url=cluster.url, password="wrong"), size=1).call("PING")
    assert refused.value.code == "NOAUTH"
    with pytest.raises(RedisRefused):
        run_async(lambda other: other.call("PING"), password="wrong")


def test_a_migrated_slot_is_followed(cluster, pool, run_async):
    pool.call("SET", "{offsider}:k", 0)

    async def count(other):
        first = await other.call("INCR", "{offsider}:k")
        moved = await asyncio.to_thread(cluster.migrate)
        second = await other.pipeline([("INCR", "{offsider}:k"), ("INCR", "{offsider}:k")])
        return first, *second, moved

    *counts, moved = run_async(count)
    assert counts == [1, 2, 3]
    assert pool.call("INCR", "{offsider}:k") == 4
    assert pool.cluster_place.endswith(moved.address)
    assert pool.troubles == 1


def test_during_a_migration_a_key_is_found_on_either_node(cluster, pool, run_async):
    pool.call("SET", "{offsider}:old", 1)
    source, target = cluster.primary(), cluster.others()[0]
    slot = cluster.begin_migration(source, target)
    assert pool.pipeline([("INCR", "{offsider}:old"), ("INCR", "{offsider}:new")]) == [2, 1]
    assert run_async(lambda other: other.pipeline([("INCR", "{offsider}:new"), ("INCR", "{offsider}:old")])) == [2, 3]
    cluster.end_migration(source, target, slot)
    assert pool.pipeline([("GET", "{offsider}:old"), ("GET", "{offsider}:new")]) == [b"3", b"2"]


def test_a_transaction_on_keys_of_the_new_node_is_sent_there(cluster, pool, run_async):
    source, target = cluster.primary(), cluster.others()[0]
    slot = cluster.begin_migration(source, target)
    commands = [
        ("INCR", "{offsider}:one"),
        ("INCR", "{offsider}:two"),
        ("MULTI",),
        ("INCR", "{offsider}:one"),
        ("INCR", "{offsider}:two"),
        ("EXEC",),
        ("GET", "{offsider}:two"),
    ]
    assert pool.pipeline(commands) == [1, 1, b"OK", b"QUEUED", b"QUEUED", [2, 2], b"2"]
    assert run_async(lambda other: other.pipeline(commands)) == [3, 3, b"OK", b"QUEUED", b"QUEUED", [4, 4], b"4"]
    cluster.end_migration(source, target, slot)
    assert pool.call("GET", "{offsider}:two") == b"4"


def test_commands_on_keys_of_both_nodes_wait_for_the_end_of_the_migration(cluster, pool, run_async):
    pool.call("SET", "{offsider}:old", 1)
    source, target = cluster.primary(), cluster.others()[0]
    slot = cluster.begin_migration(source, target)
    done = threading.Timer(0.3, cluster.end_migration, (source, target, slot))
    done.start()
    replies = pool.pipeline([("MULTI",), ("INCR", "{offsider}:old"), ("INCR", "{offsider}:new"), ("EXEC",)])
    done.join()
    assert replies[-1] == [2, 1]
    slot = cluster.begin_migration(target, source)
    pool.call("DEL", "{offsider}:new")
    done = threading.Timer(0.3, cluster.end_migration, (target, source, slot))
    done.start()
    assert pool.run(PAIR, ["{offsider}:old", "{offsider}:new"]) == 3
    done.join()


def test_without_asking_a_command_waits_for_the_end_of_the_migration(cluster, pool, run_async):
    """The old node executes commands on keys that it has. The new node refuses all others until it has the slot."""
    pool.call("SET", "{offsider}:old", 1)
    source, target = cluster.primary(), cluster.others()[0]
    with forbidden(cluster, "asking"):
        slot = cluster.begin_migration(source, target)
        assert pool.call("INCR", "{offsider}:old") == 2
        done = threading.Timer(0.3, cluster.end_migration, (source, target, slot))
        done.start()
        assert pool.pipeline([("INCR", "{offsider}:old"), ("INCR", "{offsider}:new")]) == [3, 1]
        done.join()
        assert "asking" in refused_commands(target)
        slot = cluster.begin_migration(target, source)
        done = threading.Timer(0.3, cluster.end_migration, (target, source, slot))
        done.start()
        assert run_async(lambda other: other.call("INCR", "{offsider}:other")) == 1
        done.join()
        assert "asking" in refused_commands(source)
    assert pool.call("MGET", "{offsider}:old", "{offsider}:new", "{offsider}:other") == [b"3", b"1", b"1"]


def test_a_command_that_stays_refused_is_an_error_in_time(cluster, run_async):
    settings = RedisSettings(url=cluster.url, socket_timeout_seconds=0.3)
    pool = Redis(settings, size=1)
    pool.call("SET", "{offsider}:old", 1)
    source, target = cluster.primary(), cluster.others()[0]
    slot = cluster.begin_migration(source, target)
    command = ("EXISTS", "{offsider}:old", "{offsider}:new")
    started = time.monotonic()
    with pytest.raises(RedisUnavailable, match=r"redis.cluster://.* its slot is moving to another node") as failed:
        pool.call(*command)
    assert (failed.value.code, failed.value.ambiguous) == ("TRYAGAIN", False)
    with pytest.raises(RedisUnavailable):
        run_async(lambda other: other.call(*command), socket_timeout_seconds=0.3)
    assert time.monotonic() - started < 5
    cluster.end_migration(source, target, slot)
    pool.close()


@pytest.mark.parametrize("commands", [[], ["cluster|slots"]], ids=["all_commands", "without_cluster"])
def test_a_failover_is_followed(cluster, pool, run_async, commands):
    with forbidden(cluster, *commands):
        assert pool.pipeline([("SET", "{offsider}:k", 1), ("WAIT", 1, 2000)]) == [b"OK", 1]
        killed = cluster.primary()

        async def across(other):
            await other.call("PING")
            killed.kill()
            with pytest.raises(RedisUnavailable):
                await other.call("GET", "{offsider}:k")
            with pytest.raises(RedisUnavailable):
                await asyncio.to_thread(pool.call, "GET", "{offsider}:k")
            await asyncio.to_thread(cluster.wait_for_failover, killed)
            return await other.call("GET", "{offsider}:k")

        try:
            assert run_async(across) == b"1"
            assert pool.call("GET", "{offsider}:k") == b"1"
        finally:
            killed.start()


def wait_until_promoted(cluster, frozen):
    """Wait until all other nodes know the new primary."""
    others = [node for node in cluster.nodes if node is not frozen]

    def knows(node):
        served = node.raw.execute_command("CLUSTER SLOTS")
        return Nodes([], "{offsider}:").learn(("127.0.0.1", node.port), served) != ("127.0.0.1", frozen.port)

    wait_for(lambda: all(knows(node) and node.raw.cluster("INFO")["cluster_state"] == "ok" for node in others))


def test_a_frozen_primary_is_not_asked_again_for_the_primary(cluster):
    """Each question to it would cost a timeout, although another node is promoted long before."""
    settings = RedisSettings(url=cluster.url, socket_timeout_seconds=1)
    frozen = cluster.primary()

    async def again():
        pool = AsyncRedis(settings, size=1)
        try:
            await pool.call("GET", "{offsider}:a")
            frozen.freeze()
            with pytest.raises(RedisUnavailable):
                await pool.call("GET", "{offsider}:a")
            await asyncio.to_thread(wait_until_promoted, cluster, frozen)
            began = time.monotonic()
            found = await pool.call("GET", "{offsider}:a")
            return found, time.monotonic() - began
        finally:
            await pool.close()

    pool = Redis(settings, size=1)
    assert pool.pipeline([("SET", "{offsider}:a", "1"), ("WAIT", 1, 5000)])[1] == 1
    try:
        found, seconds = asyncio.run(again())
        assert found == b"1"
        assert seconds < 0.9
        with pytest.raises(RedisUnavailable):
            pool.call("GET", "{offsider}:a")
        began = time.monotonic()
        assert pool.call("GET", "{offsider}:a") == b"1"
        assert time.monotonic() - began < 0.9
    finally:
        frozen.thaw()
        pool.close()
        cluster.wait()


def test_idle_connections_to_a_frozen_primary_are_not_used_again(cluster):
    """Each of them would cost a timeout, although another connection has noticed that the primary does not reply."""
    settings = RedisSettings(url=cluster.url, socket_timeout_seconds=1)
    frozen = cluster.primary()
    brief = ("BLPOP", "{offsider}:none", 0.2)  # so that two calls at a time use two connections

    async def across_async():
        pool = AsyncRedis(settings, size=2)
        try:
            await asyncio.gather(pool.call(*brief), pool.call(*brief))
            await asyncio.to_thread(freeze)
            with pytest.raises(RedisUnavailable):
                await pool.call("GET", "{offsider}:a")
            await asyncio.to_thread(wait_until_promoted, cluster, frozen)
            return await asyncio.gather(pool.call(*brief), pool.call(*brief))
        finally:
            await pool.close()

    def freeze():
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda _: pool.call(*brief), range(2)))
        frozen.freeze()

    pool = Redis(settings, size=2)
    try:
        assert asyncio.run(across_async()) == [None, None]
        with pytest.raises(RedisUnavailable):
            pool.call("GET", "{offsider}:a")
        with ThreadPoolExecutor(2) as threads:
            assert list(threads.map(lambda _: pool.call(*brief), range(2))) == [None, None]
    finally:
        frozen.thaw()
        pool.close()
        cluster.wait()


class FailingWire:
    """A connection that fails after a redirection."""

    def __init__(self, *, ambiguous):
        self.error = RedisUnavailable("gone", ambiguous=ambiguous)

    def exchange(self, *_):
        raise self.error

    def disconnect(self):
        pass


class FailingAsyncWire(FailingWire):
    async def exchange(self, *_):
        raise self.error

    async def disconnect(self):
        pass


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("ambiguous", [True, False])
def test_commands_already_executed_are_not_reported_as_unsent(kind, ambiguous):
    """Otherwise the caller would send all of them again."""
    settings = RedisSettings(url="redis+cluster://localhost")
    wire = (FailingWire if kind == "sync" else FailingAsyncWire)(ambiguous=ambiguous)

    def reroute(commands, replies):
        if kind == "sync":
            Redis(settings, size=1)._reroute(wire, commands, replies, None)
        else:
            asyncio.run(AsyncRedis(settings, size=1)._reroute(wire, commands, replies, None))

    with pytest.raises(RedisUnavailable):
        reroute([("PING",)], [REFUSED])
    replies = [1, REFUSED]
    if ambiguous:
        with pytest.raises(RedisUnavailable):
            reroute([("LPUSH",), ("SADD",)], replies)
    else:
        reroute([("LPUSH",), ("SADD",)], replies)
        assert replies == [1, REFUSED]


def test_only_commands_that_were_not_executed_are_sent_again():
    queued, aborted = b"QUEUED", RedisRefused("EXECABORT", code="EXECABORT")
    commands = [("EXEC",), ("GET", "a"), ("MULTI",), ("GET", "b"), ("EXEC",), ("MULTI",), ("GET", "c"), ("EXEC",)]
    replies = [aborted, b"1", b"OK", REFUSED, aborted, b"OK", queued, [b"2"]]
    again = next(redirected(commands, replies, time.monotonic() + 5))
    assert (again.places, again.asking, again.pause_seconds) == ([2, 3, 4], False, 0)


def test_addresses_that_nodes_leave_out_are_those_of_the_node_that_replied():
    nodes = Nodes([("a", 1)], "{offsider}:")
    assert nodes.learn(("a", 1), [[0, 9000, [b"", 7, b"id", []], [b"b", 8]], [9001, 16383, [None, 9]]]) == ("a", 7)
    assert nodes.addresses == [("a", 1), ("a", 7), ("b", 8), ("a", 9)]
    nodes.read(redis_py.exceptions.MovedError("8428 :5"), ("b", 8))
    assert nodes.primary == ("b", 5)
    assert nodes.read(redis_py.exceptions.AskError("8428 c:6"), ("b", 8)) == ("c", 6)
    nodes.read(redis_py.exceptions.ClusterDownError("down"), ("a", 1))
    assert (nodes.primary, nodes.addresses[-1]) == (None, ("a", 1))


def test_nodes_that_were_replaced_are_forgotten():
    nodes = Nodes([("seed", 1)], "{offsider}:")
    for pod in range(300):
        nodes.learn(("seed", 1), [[0, 16383, [f"pod-{pod}".encode(), 1], [b"replica", 1]]])
    assert nodes.addresses == [("seed", 1), ("pod-299", 1), ("replica", 1)]
    assert nodes.learn(("replica", 1), []) is None  # it was reset, and knows no other node
    assert nodes.addresses == [("replica", 1), ("seed", 1), ("pod-299", 1)]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_node_that_replied_is_asked_before_one_that_did_not(make_server, kind):
    """Also if it refuses CLUSTER."""
    address = make_server(port=0, without=["CLUSTER"]).url.partition("://")[2].partition("/")[0]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis+cluster://127.0.0.1:{silent.getsockname()[1]},{address}"
        settings = RedisSettings(url=url, socket_timeout_seconds=0.3)

        async def use():
            pool = AsyncRedis(settings, size=1)
            try:
                with suppress(RedisUnavailable):
                    await pool.call("PING")  # to the silent node
                await pool.call("PING")
                [loop_pool] = pool._pools.values()
                return loop_pool.factory.nodes.addresses
            finally:
                await pool.close()

        if kind == "sync":
            pool = Redis(settings, size=1)
            pool.call("PING")
            addresses = pool._factory.nodes.addresses
            pool.close()
        else:
            addresses = asyncio.run(use())
        assert addresses[-1] == silent.getsockname()[:2]


def test_a_seed_that_never_replies_costs_the_timeouts(cluster):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = cluster.url.replace("://", f"://127.0.0.1:{silent.getsockname()[1]},")
        pool = Redis(RedisSettings(url=url, socket_timeout_seconds=0.3), size=1)
        started = time.monotonic()
        assert pool.call("SET", "{offsider}:k", 1) == b"OK"
        assert time.monotonic() - started < 3
        pool.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_node_that_never_replies_fails_one_call_with_a_deadline(cluster, run_async, kind):
    """The next call asks the other nodes first, although this one ended before redis-py's timeout."""
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        silent = ",".join(f"127.0.0.1:{node.getsockname()[1]}" for node in (first, second))
        url = cluster.url.replace("://", f"://{silent},")
        settings = RedisSettings(url=url, socket_timeout_seconds=60)

        async def use(pool):
            async def ping(seconds):
                if kind == "async":
                    return await pool.pipeline([("PING",)], seconds=seconds)
                return await asyncio.to_thread(blocking.pipeline, [("PING",)], deadline=time.monotonic() + seconds)

            for _ in (first, second):
                with pytest.raises(RedisUnavailable) as failure:
                    await ping(1)
                assert not failure.value.ambiguous
            return await ping(20)

        blocking = Redis(settings, size=1)
        assert run_async(use, **vars(settings)) == [b"PONG"]
        blocking.close()


# ------------------------------------------------------------------------------------------ TLS


def test_over_tls_all_kinds_of_connections_follow_the_slot(tls_cluster, certificates, run_async):
    settings = RedisSettings(url=tls_cluster.url, tls_ca_file=str(certificates.ca_file))
    pool = Redis(settings, size=1)

    async def count_and_move(other):
        before = await other.call("INCR", "{offsider}:k")
        await asyncio.to_thread(tls_cluster.migrate)
        return before, await other.call("INCR", "{offsider}:k")

    assert pool.call("INCR", "{offsider}:k") == 1
    assert run_async(count_and_move, url=settings.url, tls_ca_file=settings.tls_ca_file) == (2, 3)
    assert pool.call("INCR", "{offsider}:k") == 4
    assert pool.cluster_place.endswith(f"localhost:{tls_cluster.primary().port}")  # the name in the certificate
    pool.close()


def test_over_tls_a_job_runs_and_fails_and_runs_again(tls_cluster, certificates):
    config = Config()
    config.redis.url, config.redis.tls_ca_file = tls_cluster.url, str(certificates.ca_file)
    config.client.push_timeout_seconds = 20  # a handshake takes a second on a busy machine
    before = set_default_config(config)
    ended, failed = threading.Event(), []
    with registry.isolated():

        @job(retry_in=lambda count, error, payload: 1)
        def fails_once():
            if not failed:
                failed.append(1)
                raise ValueError("once")
            ended.set()

        with EmbeddedWorker(config):
            fails_once.enqueue()
            assert ended.wait(20)
    set_default_config(before)


def test_over_tls_a_certificate_of_another_authority_is_refused(tls_cluster, run_async):
    with pytest.raises(RedisUnavailable, match="certificate verify failed"):
        Redis(RedisSettings(url=tls_cluster.url), size=1).call("PING")
    with pytest.raises(RedisUnavailable, match="certificate verify failed"):
        run_async(lambda other: other.call("PING"), url=tls_cluster.url)
