"""A Cluster: connections go to the primary of the hash tag, and follow the slot to other nodes."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress

import pytest
import redis as redis_py

from offsider import job
from offsider.core.errors import ConfigurationError, RedisRefused, RedisUnavailable
from offsider.inspector import ServerInfo
from offsider.storage.cluster import Nodes, redirected
from offsider.storage.redis import Redis, RedisSettings
from offsider.storage.scripts import Script
from offsider.worker.embed import EmbeddedWorker
from tests.redis.storage.every_verb import left_behind, seed, walk
from tests.snapshot import snapshot
from tests.waiting import wait_for

REFUSED = RedisUnavailable("TRYAGAIN", code="TRYAGAIN")
PAIR = Script("pair", source="-- KEYS[1] a\n-- KEYS[2] b\nreturn redis.call('INCR', KEYS[1])\n")


@pytest.fixture
def make_pool(cluster, make_pool):
    """Makes pools of the Cluster, which have not connected yet."""
    return lambda **given: make_pool(**({"url": cluster.url} | given))


@pytest.fixture
def pool(make_pool):
    return make_pool(size=2)


def test_every_verb_works_with_the_default_prefix(cluster, pool):
    with cluster.primary().raw as raw:
        seed(raw, pool.keys)
        walk(pool)
        assert all(key.startswith("{offsider}:") for key in snapshot(raw))
        left_behind(pool.keys, snapshot(raw))


def test_a_cluster_is_not_refused_before_a_push(pool):
    pool.check_server()


def test_servers_with_different_tags_are_on_different_primaries(cluster, make_pool):
    places = set()
    for tag in ("a", "b", "c"):
        pool = make_pool(key_prefix=f"{{{tag}}}:")
        assert pool.cluster_place == ""
        assert pool.call("SET", f"{pool.keys.prefix}k", tag) == b"OK"
        assert pool.cluster_place.startswith(f"hash tag {{{tag}}}, slot ")
        assert pool.cluster_place.endswith(cluster.primary(tag).address)
        places.add(cluster.primary(tag).address)
    assert len(places) == 3


@pytest.mark.parametrize("prefix", ["shop:", "{}:", "{shop"])
def test_a_prefix_without_a_hash_tag_is_refused_with_one_to_use(prefix):
    with pytest.raises(ConfigurationError, match=r"^redis\.key_prefix: .*example '\{(shop|offsider)\}:'$"):
        Redis(RedisSettings(url="redis+cluster://localhost", key_prefix=prefix), size=1).call("PING")


def test_a_cluster_with_sentinels_is_refused():
    settings = RedisSettings(url="redis+cluster://localhost", sentinels=("a:1",), sentinel_name="m")
    with pytest.raises(ConfigurationError, match=r"^redis\.sentinels: .* leave them out"):
        Redis(settings, size=1).call("PING")


def test_seeds_that_do_not_reply_are_passed_over(cluster, make_pool):
    pool = make_pool(url=cluster.url.replace("://", "://127.0.0.1:1,"))
    assert pool.call("SET", "{offsider}:k", 1) == b"OK"


def test_a_single_server_among_the_seeds_gets_no_jobs(cluster, make_server, make_pool):
    port = make_server(port=0).url.rpartition(":")[2].partition("/")[0]
    single = f"127.0.0.1:{port}"
    pool = make_pool(url=cluster.url.replace("://", f"://{single},"))
    assert pool.call("SET", "{offsider}:k", 1) == b"OK"
    assert pool.cluster_place.endswith(cluster.primary().address)
    away = f"redis+cluster://{single},127.0.0.1:1"  # the nodes of the Cluster do not reply
    with pytest.raises(RedisUnavailable, match="returned a primary"):
        make_pool(url=away).call("SET", "{offsider}:k", 1)
    pool = make_pool(url=f"redis+cluster://{single},localhost:{port}")  # two names of one server
    assert pool.call("GET", "{offsider}:k") is None
    assert pool.cluster_place.endswith(single)


def test_a_cluster_that_does_not_serve_the_slot_is_unavailable(make_server, make_pool):
    address = make_server(port=0, cluster_enabled="yes").url.partition("://")[2].partition("/")[0]
    with pytest.raises(RedisUnavailable, match=r"^no node of the Cluster serves slot 8428: ") as failure:
        make_pool(url=f"redis+cluster://127.0.0.1:1,{address}").call("PING")
    assert not failure.value.ambiguous
    assert f"run redis-cli --cluster check {address}, and redis-cli --cluster fix {address}" in str(failure.value)


def test_a_server_that_refuses_the_cluster_command_is_used(make_server, make_pool):
    """The nodes of a restricted Cluster redirect the first command; a proxy needs no redirection."""
    server = make_server(port=0, without=["CLUSTER"])
    pool = make_pool(url=server.url.replace("redis://", "redis+cluster://"))
    assert pool.call("SET", "{offsider}:k", 1) == b"OK"


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


def test_nodes_that_refuse_the_cluster_command_redirect_to_the_primary(cluster, make_pool):
    with forbidden(cluster, "cluster|slots"):
        for node in cluster.nodes:  # also replicas, and primaries of other slots
            info = ServerInfo.ask(make_pool(url=f"redis+cluster://{node.address}"))
            assert info.role == "master"
            assert info.cluster.endswith(cluster.primary().address)


def test_a_wrong_password_is_a_refusal_on_every_node(make_pool):
    with pytest.raises(RedisRefused) as refused:
        make_pool(password="wrong").call("PING")
    assert refused.value.code == "NOAUTH"


def test_a_migrated_slot_is_followed(cluster, pool):
    assert pool.call("INCR", "{offsider}:k") == 1
    cluster.migrate()
    assert pool.call("INCR", "{offsider}:k") == 2
    assert pool.troubles == 1
    moved = cluster.migrate()
    assert pool.pipeline([("INCR", "{offsider}:k"), ("INCR", "{offsider}:k")]) == [3, 4]
    assert pool.cluster_place.endswith(moved.address)


def test_during_a_migration_a_key_is_found_on_either_node(cluster, pool, make_pool):
    pool.call("SET", "{offsider}:old", 1)
    source, target = cluster.primary(), cluster.others()[0]
    slot = cluster.begin_migration(source, target)
    assert pool.pipeline([("INCR", "{offsider}:old"), ("INCR", "{offsider}:new")]) == [2, 1]
    assert make_pool().pipeline([("INCR", "{offsider}:new"), ("INCR", "{offsider}:old")]) == [2, 3]
    cluster.end_migration(source, target, slot)
    assert pool.pipeline([("GET", "{offsider}:old"), ("GET", "{offsider}:new")]) == [b"3", b"2"]


def test_a_transaction_on_keys_of_the_new_node_is_sent_there(cluster, pool):
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
    cluster.end_migration(source, target, slot)
    assert pool.call("GET", "{offsider}:two") == b"2"


def test_commands_on_keys_of_both_nodes_wait_for_the_end_of_the_migration(cluster, pool):
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


def test_without_asking_a_command_waits_for_the_end_of_the_migration(cluster, pool, make_pool):
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
        assert make_pool().call("INCR", "{offsider}:other") == 1
        done.join()
        assert "asking" in refused_commands(source)
    assert pool.call("MGET", "{offsider}:old", "{offsider}:new", "{offsider}:other") == [b"3", b"1", b"1"]


def test_a_command_that_stays_refused_is_an_error_in_time(cluster, make_pool):
    pool = make_pool(socket_timeout_seconds=1.5)
    pool.call("SET", "{offsider}:old", 1)
    source, target = cluster.primary(), cluster.others()[0]
    slot = cluster.begin_migration(source, target)
    started = time.monotonic()
    with pytest.raises(RedisUnavailable, match=r"redis.cluster://.* its slot is moving to another node") as failed:
        pool.call("EXISTS", "{offsider}:old", "{offsider}:new")
    assert (failed.value.code, failed.value.ambiguous) == ("TRYAGAIN", False)
    assert time.monotonic() - started < 30
    cluster.end_migration(source, target, slot)


@pytest.mark.parametrize("commands", [[], ["cluster|slots"]], ids=["all_commands", "without_cluster"])
def test_a_failover_is_followed(cluster, pool, commands):
    with forbidden(cluster, *commands):
        assert pool.pipeline([("SET", "{offsider}:k", 1), ("WAIT", 1, 2000)]) == [b"OK", 1]
        killed = cluster.primary()
        killed.kill()
        try:
            with pytest.raises(RedisUnavailable):
                pool.call("GET", "{offsider}:k")
            cluster.wait_for_failover(killed)
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


def test_a_frozen_primary_is_not_asked_again_for_the_primary(cluster, make_pool):
    """Each question to it would cost a timeout, although another node is promoted long before."""
    frozen = cluster.primary()
    pool = make_pool(socket_timeout_seconds=60)
    assert pool.pipeline([("SET", "{offsider}:a", "1"), ("WAIT", 1, 5000)])[1] == 1
    try:
        frozen.freeze()
        with pytest.raises(RedisUnavailable):
            pool.pipeline([("GET", "{offsider}:a")], deadline=time.monotonic() + 1)
        wait_until_promoted(cluster, frozen)
        began = time.monotonic()
        assert pool.call("GET", "{offsider}:a") == b"1"
        assert time.monotonic() - began < 30
    finally:
        frozen.thaw()
        cluster.wait()


def test_idle_connections_to_a_frozen_primary_are_not_used_again(cluster, make_pool):
    """Each of them would cost a timeout, although another connection has noticed that the primary does not reply."""
    frozen = cluster.primary()
    pool = make_pool(size=2, socket_timeout_seconds=1)

    def call_twice_at_a_time():
        """Use both connections."""
        with ThreadPoolExecutor(2) as threads:
            return list(threads.map(lambda _: pool.call("BLPOP", "{offsider}:none", 0.2), range(2)))

    call_twice_at_a_time()
    try:
        frozen.freeze()
        with pytest.raises(RedisUnavailable):
            pool.call("GET", "{offsider}:a")
        wait_until_promoted(cluster, frozen)
        assert call_twice_at_a_time() == [None, None]
    finally:
        frozen.thaw()
        cluster.wait()


class FailingWire:
    """A connection that fails after a redirection."""

    def __init__(self, *, ambiguous):
        self.error = RedisUnavailable("gone", ambiguous=ambiguous)

    def exchange(self, *_):
        raise self.error

    def disconnect(self):
        pass


@pytest.mark.parametrize("ambiguous", [True, False])
def test_commands_already_executed_are_not_reported_as_unsent(ambiguous):
    """Otherwise the caller would send all of them again."""
    pool = Redis(RedisSettings(url="redis+cluster://localhost"), size=1)
    wire = FailingWire(ambiguous=ambiguous)
    with pytest.raises(RedisUnavailable):
        pool._redirect(wire, [("PING",)], [REFUSED], None)
    replies = [1, REFUSED]
    with pytest.raises(RedisUnavailable) if ambiguous else nullcontext():
        pool._redirect(wire, [("LPUSH",), ("SADD",)], replies, None)
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


def test_a_node_that_replied_is_asked_before_one_that_did_not(make_server, make_pool):
    """Also if it refuses CLUSTER."""
    address = make_server(port=0, without=["CLUSTER"]).url.partition("://")[2].partition("/")[0]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis+cluster://127.0.0.1:{silent.getsockname()[1]},{address}"
        pool = make_pool(url=url, socket_timeout_seconds=1.5)
        pool.call("PING")
        assert pool._factory.nodes.addresses[-1] == silent.getsockname()[:2]


def test_a_node_that_never_replies_fails_one_call_with_a_deadline(cluster, make_pool):
    """The next call asks the other nodes first, although this one ended before redis-py's timeout."""
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        silent = ",".join(f"127.0.0.1:{node.getsockname()[1]}" for node in (first, second))
        pool = make_pool(url=cluster.url.replace("://", f"://{silent},"), socket_timeout_seconds=60)
        for _ in (first, second):
            with pytest.raises(RedisUnavailable) as failure:
                pool.pipeline([("PING",)], deadline=time.monotonic() + 1)
            assert not failure.value.ambiguous
        assert pool.pipeline([("PING",)], deadline=time.monotonic() + 20) == [b"PONG"]


# ------------------------------------------------------------------------------------------ TLS


def test_over_tls_connections_follow_the_slot(tls_cluster, certificates, make_pool):
    pool = make_pool(url=tls_cluster.url, tls_ca_file=str(certificates.ca_file))
    assert pool.call("INCR", "{offsider}:k") == 1
    tls_cluster.migrate()
    assert pool.call("INCR", "{offsider}:k") == 2
    assert pool.cluster_place.endswith(f"localhost:{tls_cluster.primary().port}")  # the name in the certificate


def test_over_tls_a_job_runs_and_fails_and_runs_again(tls_cluster, certificates, default_config):
    config = default_config
    config.redis.url, config.redis.tls_ca_file = tls_cluster.url, str(certificates.ca_file)
    config.client.push_timeout_seconds = 20  # a handshake takes a second on a busy machine
    ended, failed = threading.Event(), []

    @job(retry_in=lambda count, error, payload: 1)
    def fails_once():
        if not failed:
            failed.append(1)
            raise ValueError("once")
        ended.set()

    with EmbeddedWorker(config):
        fails_once.enqueue()
        assert ended.wait(20)
