"""The façade: errors as our own, nothing sent twice, no connection that a failure has poisoned."""

import gc
import importlib
import os
import re
import signal
import socket
import threading
import time
import weakref
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import redis as redis_py
from redis._parsers import _RESP2Parser

from offsider.core.errors import ConfigurationError, QueueFull, RedisRefused, RedisUnavailable
from offsider.storage import queues, redis as redis_module
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.redis import Redis, RedisSettings, redact
from offsider.storage.scripts import Script
from tests.threads import together
from tests.waiting import wait_for

KEY = f"{DEFAULT_PREFIX}key"


@contextmanager
def borrowed(pool):
    """A connection that is in use, as those of other threads are."""
    wire = pool._borrow(None)
    yield wire
    pool._give_back(wire)


def test_the_first_error_of_a_pipeline_is_raised_and_the_rest_was_carried_out(pool, raw_redis):
    with pytest.raises(RedisRefused) as refused:
        pool.pipeline([("SET", KEY, 1), ("LPUSH", KEY, 1), ("SET", f"{KEY}:later", 1)])
    assert refused.value.code == "WRONGTYPE"
    assert raw_redis.get(f"{KEY}:later") == b"1"


# ------------------------------------------------------------------------------- lost replies


def test_a_lost_reply_is_ambiguous_and_the_push_is_not_repeated(proxied, proxy, raw_redis):
    """redis-py's own retries would leave several entries of one LPUSH."""
    proxy.lose_reply(b"LPUSH", times=3)
    with pytest.raises(RedisUnavailable) as failure:
        proxied.pipeline(queues.push_commands(proxied.keys, "default", [b"{}"]))
    assert failure.value.ambiguous
    assert raw_redis.lrange("queue:default", 0, -1) == [b"{}"]
    assert proxy.lost == 1
    assert proxied.troubles == 1


def test_a_lost_request_is_as_ambiguous_and_nothing_is_stored(proxied, proxy, raw_redis, tag):
    proxy.lose_request(b"LPUSH")
    with pytest.raises(RedisUnavailable) as failure:
        proxied.call("LPUSH", f"{tag}queue:default", "{}")
    assert failure.value.ambiguous
    assert raw_redis.llen("queue:default") == 0


def test_a_server_that_cannot_be_reached_is_not_ambiguous(proxied, proxy):
    proxy.refuse()
    with pytest.raises(RedisUnavailable) as failure:
        proxied.call("PING")
    assert not failure.value.ambiguous
    proxy.accept()
    assert proxied.call("PING") == b"PONG"


@pytest.mark.parametrize("how", ["reset", "close"])
def test_an_idle_connection_that_broke_is_replaced_without_an_error(proxied, proxy, raw_redis, monkeypatch, how):
    """No byte was sent, so the command is sent on a new connection, once."""
    monkeypatch.setattr(redis_module, "MAX_IDLE_SECONDS", 0.0)  # as if it had rested
    proxied.call("PING")
    getattr(proxy, how)()
    assert proxied.call("LPUSH", f"{proxied.keys.prefix}l", 1) == 1
    assert raw_redis.llen("l") == 1
    assert proxy.connections == 2
    assert proxied.troubles == 0  # proxies close idle connections: that must not prevent the detection of dead owners


def test_a_server_restart_does_not_fail_idle_connections(make_server, monkeypatch):
    monkeypatch.setattr(redis_module, "MAX_IDLE_SECONDS", 0)  # a server of a test restarts in less
    server = make_server()
    pool = Redis(RedisSettings(url=server.url), size=1)
    pool.call("SET", "k", "v")
    server.stop()
    with pytest.raises(RedisUnavailable) as failure:
        pool.call("GET", "k")
    assert not failure.value.ambiguous
    server.start()
    assert pool.call("GET", "k") == b"v"
    server.stop()
    server.start()
    assert pool.call("GET", "k") == b"v"
    pool.close()


def test_a_late_reply_is_never_read_as_the_next_one(proxied, proxy, tag):
    """The reply that arrives after the timeout is on a connection that is closed."""
    impatient = Redis(RedisSettings(url=proxy.url, socket_timeout_seconds=1.5), size=1)
    impatient.call("SET", f"{tag}a", "old")
    proxy.hold()
    with pytest.raises(RedisUnavailable) as failure:
        impatient.call("GET", f"{tag}a")
    assert failure.value.ambiguous
    proxy.release()
    assert impatient.call("ECHO", "new") == b"new"


def test_a_frozen_server_is_an_ambiguous_failure_in_time(make_server):
    server = make_server(port=0)
    pool = Redis(RedisSettings(url=server.url, socket_timeout_seconds=1.5), size=1)
    pool.call("PING")
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(RedisUnavailable) as failure:
            pool.call("LPUSH", "l", 1)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert failure.value.ambiguous
    assert pool.call("PING") == b"PONG"
    pool.close()


def test_a_connection_killed_during_a_command_is_ambiguous(make_pool, redis_url, raw_redis):
    failures, pool = [], make_pool(url=redis_url, socket_timeout_seconds=60)

    def wait_in_vain():
        try:
            pool.call("BLPOP", KEY, 50)
        except RedisUnavailable as error:
            failures.append(error)

    waiting = threading.Thread(target=wait_in_vain)
    waiting.start()
    (blocked,) = wait_for(lambda: [one["id"] for one in raw_redis.client_list() if one["cmd"] == "blpop"])
    raw_redis.client_kill_filter(_id=blocked)
    waiting.join(60)
    assert [failure.ambiguous for failure in failures] == [True]


# ------------------------------------------------------------------------------ the server refuses


def test_a_blocked_client_of_a_demoted_master_raises_refused(make_server):
    server = make_server(port=0)
    pool = Redis(RedisSettings(url=server.url, socket_timeout_seconds=60), size=1)
    refused = []

    def wait_in_vain():
        try:
            pool.call("BLPOP", KEY, 50)
        except RedisRefused as error:
            refused.append(error.code)

    with redis_py.Redis.from_url(server.url) as control:
        waiting = threading.Thread(target=wait_in_vain)
        waiting.start()
        wait_for(lambda: any(client["cmd"] == "blpop" for client in control.client_list()))
        control.replicaof("127.0.0.1", 1)
        waiting.join(60)
        before = pool.troubles
        with pytest.raises(RedisRefused) as readonly:
            pool.call("SET", "k", 1)
        control.config_set("replica-serve-stale-data", "no")
        with pytest.raises(RedisRefused) as masterdown:
            pool.call("GET", "k")
    assert refused == ["UNBLOCKED"]
    assert readonly.value.code == "READONLY"
    assert masterdown.value.code == "MASTERDOWN"
    assert pool.troubles >= before + 2
    pool.close()


def test_too_few_replicas_is_refused_with_its_code(make_server):
    server = make_server(min_replicas_to_write="1")
    with pytest.raises(RedisRefused) as refused:
        Redis(RedisSettings(url=server.url), size=1).call("SET", "k", 1)
    assert refused.value.code == "NOREPLICAS"


def test_a_full_server_is_a_full_queue(make_server):
    server = make_server(maxmemory="1")
    pool = Redis(RedisSettings(url=server.url), size=1)
    with pytest.raises(QueueFull, match="out of memory and refuses writes"):
        pool.pipeline(queues.push_commands(pool.keys, "default", [b"{}"]))
    assert pool.troubles == 2  # SADD and LPUSH
    assert pool.call("LLEN", "queue:default") == 0


def test_a_wrong_password_and_none_are_refused_not_unreachable(make_server):
    server = make_server(port=0, requirepass="secret")
    for password in ("", "wrong"):
        with pytest.raises(RedisRefused) as refused:
            Redis(RedisSettings(url=server.url, password=password), size=1).call("PING")
        assert refused.value.code == "NOAUTH"
    assert Redis(RedisSettings(url=server.url, password="secret"), size=1).call("PING") == b"PONG"


def accepts(path: Path) -> bool:
    """Whether a server accepts connections at this socket."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def test_a_server_that_still_loads_is_unavailable_and_did_nothing(make_server):
    server = make_server(port=0, key_load_delay="1000", loading_process_events_interval_bytes="1024")
    with redis_py.Redis.from_url(server.url) as control:
        for start in range(0, 20_000, 1000):
            control.mset({f"k{n}": "x" * 40 for n in range(start, start + 1000)})
        control.config_set("appendonly", "no")
        control.save()
    folder, binary = server.folder, server._binary
    server.stop()
    reborn = os.spawnv(
        os.P_NOWAIT,
        binary,
        [str(binary), "--dir", str(folder), "--unixsocket", str(folder / "again"), "--port", "0", "--save", "",
         "--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024", "--logfile", str(folder / "x")],
    )  # fmt: skip
    try:
        pool = Redis(RedisSettings(url=f"unix://{folder / 'again'}"), size=1)
        wait_for(lambda: accepts(folder / "again"))  # the path is there a moment before
        with pytest.raises(RedisUnavailable, match="loading") as failure:
            pool.call("GET", "k1")
        assert not failure.value.ambiguous
        pool.close()
    finally:
        os.kill(reborn, signal.SIGKILL)
        os.waitpid(reborn, 0)


# ---------------------------------------------------------------------------- options of the URL


@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+cluster"])
def test_an_unknown_option_in_the_url_is_named_and_the_password_is_not(scheme):
    settings = RedisSettings(url=f"{scheme}://user:hunter2@localhost:1?client_name=a&foo=hunter2")
    expected = (
        rf"^redis\.url: '{re.escape(scheme)}://user:\*\*\*@localhost:1' is not usable: its option 'foo' is unknown$"
    )
    with pytest.raises(ConfigurationError, match=expected):
        Redis(settings, size=1).call("PING")


def test_a_maximum_of_connections_in_the_url_does_not_end_the_pool(embedded_url):
    """redis-py counts all connections that were ever made."""
    mark = "&" if "?" in embedded_url else "?"
    pool = Redis(RedisSettings(url=f"{embedded_url}{mark}max_connections=1"), size=2)
    with borrowed(pool) as one, borrowed(pool) as other:
        assert one.exchange([("PING",)]) == other.exchange([("PING",)]) == [b"PONG"]
    pool.close()


# --------------------------------------------------------------------------- pool and threads


def test_an_exhausted_pool_raises_with_the_next_step(redis_url, monkeypatch):
    monkeypatch.setattr("offsider.storage.redis.POOL_WAIT_SECONDS", 0.01)
    small = Redis(RedisSettings(url=redis_url), size=1)
    with borrowed(small), pytest.raises(RedisUnavailable) as failure:
        small.call("PING")
    assert not failure.value.ambiguous
    assert "all 1 connections to" in str(failure.value)
    assert "check that the server replies, and raise redis.client_pool_size or use fewer threads" in str(failure.value)
    assert small.call("PING") == b"PONG"
    small.close()


def test_many_threads_share_few_connections(proxied, proxy, raw_redis, tag):
    def push():
        for _ in range(50):
            proxied.call("INCR", f"{tag}n")

    together(*[push for _ in range(8)])
    assert raw_redis.get("n") == b"400"
    assert proxy.connections <= proxied.size


def test_no_thread_is_overtaken_for_long_by_those_that_use_a_connection_without_a_pause(redis_url):
    """Ten threads and one connection: each gets it in turn, so their numbers of calls are about the same."""
    pool = Redis(RedisSettings(url=redis_url), size=1)
    calls = [0] * 10
    ended = threading.Event()

    def call(number):
        while not ended.is_set():
            pool.call("PING")
            calls[number] += 1

    threads = [threading.Thread(target=call, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    wait_for(lambda: sum(calls) > 2_000)
    ended.set()
    for thread in threads:
        thread.join()
    assert min(calls) > 40
    pool.close()


class Interrupted:
    """A socket or its replies, used once while a signal arrives."""

    def __init__(self, part):
        self._part = part
        self._signals = [KeyboardInterrupt()]

    def __getattr__(self, name):
        if name in {"sendall", "next", "receive"} and self._signals:
            raise self._signals.pop()
        return getattr(self._part, name)


def test_an_interrupt_between_command_and_reply_does_not_poison_the_connection(pool, tag):
    """KeyboardInterrupt and Shutdown may land anywhere in user code that pushes."""
    pool.call("SET", f"{tag}k", "old")
    with borrowed(pool) as wire:
        wire._replies = Interrupted(wire._replies)
    with pytest.raises(KeyboardInterrupt):
        pool.call("GET", f"{tag}k")
    assert pool.call("ECHO", "new") == b"new"


@pytest.mark.parametrize("step", ["send", "receive"])
def test_an_interrupt_of_a_pipelined_command_does_not_poison_the_connection(pool, step, tag):
    with borrowed(pool) as wire:

        def pipelined():
            wire.send([("GET", f"{tag}k")])
            wire.receive()

        wire.exchange([("SET", f"{tag}k", "old")])
        if step == "send":
            wire._connection._sock = Interrupted(wire._connection._sock)
        else:
            wire._replies = Interrupted(wire._replies)
        with pytest.raises(KeyboardInterrupt):
            pipelined()
        assert not wire._connection.is_connected
    assert pool.call("ECHO", "new") == b"new"


def test_a_request_that_cannot_be_sent_is_ambiguous_and_closes_the_connection(pool, tag):
    with borrowed(pool) as wire:
        wire.exchange([("SET", f"{tag}k", "old")])
        wire._connection._sock.shutdown(socket.SHUT_WR)
        with pytest.raises(RedisUnavailable) as failure:
            wire.send([("GET", f"{tag}k")])
        assert failure.value.ambiguous
        assert not wire._connection.is_connected


def test_an_interrupt_while_it_connects_leaves_no_half_open_connection(pool, monkeypatch):
    with borrowed(pool) as wire:
        connection = wire._connection
    connect = connection.connect

    def interrupted():
        connect()
        monkeypatch.setattr(connection, "connect", connect)
        raise KeyboardInterrupt

    monkeypatch.setattr(connection, "connect", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pool.call("PING")
    assert not connection.is_connected
    assert pool.call("ECHO", "new") == b"new"


@pytest.mark.parametrize("in_use", [False, True], ids=["idle", "in use"])
def test_a_forked_child_opens_connections_of_its_own(pool, raw_redis, in_use):
    """Two processes on one socket would read each other's replies."""
    mine = pool.call("CLIENT", "ID")
    with borrowed(pool) if in_use else nullcontext():
        child = os.fork()
        if child == 0:
            theirs = pool.call("CLIENT", "ID")
            fine = theirs != mine and all(pool.call("INCR", KEY) for _ in range(20))
            fine = fine and len([wire for wire in pool._free if wire is not None]) == 1
            os._exit(0 if fine else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert raw_redis.get(KEY) == b"20"
    assert pool.call("CLIENT", "ID") == mine, "and leaves its parent's alone"


def test_after_a_role_change_a_new_connection_finds_the_master(make_server):
    server = make_server(port=0)
    pool = Redis(RedisSettings(url=server.url), size=1)
    first = pool.call("CLIENT", "ID")
    pool.call("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(RedisRefused):
        pool.call("SET", "k", 1)
    assert pool.call("CLIENT", "ID") != first
    pool.close()


def test_ping_returns_a_positive_time(pool):
    assert pool.ping() > 0


# ------------------------------------------------------------------------------------ scripts


def test_a_script_is_called_by_hash_and_by_text_after_a_flush(pool, raw_redis):
    probe = Script("oldest")
    assert pool.run(probe, [], [9, 9]) == []
    raw_redis.script_flush()
    assert pool.run(probe, [], [9, 9]) == []
    assert raw_redis.script_exists(probe.sha) == [True]


# ----------------------------------------------------------------------------------- settings


def test_an_unusable_url_names_the_setting():
    with pytest.raises(ConfigurationError, match=r"redis\.url"):
        Redis(RedisSettings(url="http://localhost"), size=1).call("PING")


@pytest.mark.parametrize(
    "settings, missing",
    [
        (RedisSettings(sentinels=("localhost",), sentinel_name="m"), r"redis\.sentinels: 'localhost'"),
        (RedisSettings(sentinels=("localhost:26379",)), r"redis\.sentinel_name"),
    ],
)
def test_incomplete_sentinel_settings_name_the_missing_one(settings, missing):
    with pytest.raises(ConfigurationError, match=missing):
        Redis(settings, size=1).call("PING")


@pytest.mark.parametrize(
    "url, shown",
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://:secret@localhost/0", "redis://:***@localhost/0"),
        ("rediss://user:se@cret@host:1/2?password=x", "rediss://user:***@host:1/2"),
        ("unix:///run/redis.sock?password=x", "unix:///run/redis.sock"),
        ("rediss+cluster://u:secret@a:1,[::1]:2/0?x=1", "rediss+cluster://u:***@a:1,[::1]:2/0"),
    ],
)
def test_a_password_is_never_shown(url, shown):
    assert redact(url) == shown


def test_without_hiredis_commands_are_packed_by_redis_py(redis_url, raw_redis, monkeypatch):
    found = importlib.import_module

    def without_hiredis(name):
        if name == "hiredis":
            raise ImportError(name)
        return found(name)

    monkeypatch.setattr(redis_module.importlib, "import_module", without_hiredis)
    make = redis_module.Wire._new_connection

    def with_parser_in_python(wire):
        connection = make(wire)
        connection.set_parser(_RESP2Parser)
        return connection

    monkeypatch.setattr(redis_module.Wire, "_new_connection", with_parser_in_python)
    pool = Redis(RedisSettings(url=redis_url), size=1)
    assert pool.call("SET", KEY, b"\xff") == b"OK"
    assert raw_redis.get(KEY) == b"\xff"
    with borrowed(pool) as wire:
        assert not wire.readable(0)
    pool.close()


def test_a_forked_child_does_not_keep_its_parents_connections_open(pool, raw_redis):
    """Else the server would hand a dead worker's pops more jobs for as long as a child of it lives."""
    wire = pool.own_wire()
    (number,) = wire.exchange([("CLIENT", "ID")])
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        assert wire.exchange([("PING",)]) == [b"PONG"], "the parent's stays open"
        sock = wire._connection._sock
        wire._connection._sock = None
        sock.close()  # without the shutdown by which redis-py would end it for the child too: as at a kill
        wait_for(lambda: str(number) not in {client["id"] for client in raw_redis.client_list()})
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_closing_the_pool_closes_every_connection(pool, monkeypatch):
    class Broken:
        def close(self):
            raise OSError

    wires = [pool.own_wire() for _ in range(3)]
    wires[0]._connection._sock = Broken()
    wires[1].prepare()
    sock = wires[1]._connection._sock
    with monkeypatch.context() as patch:
        patch.setattr(redis_module, "_wires", {*wires})
        redis_module._let_go_in_child()
    assert not any(wire._connection.is_connected for wire in wires)
    assert sock.fileno() == -1
    assert wires[1].exchange([("PING",)]) == [b"PONG"], "it can connect anew"


def test_a_forgotten_pool_closes_its_connections_before_the_garbage_collector_takes_them(redis_url):
    kept = []

    def make_a_circle():
        pool = Redis(RedisSettings(url=redis_url), size=1)
        pool.ping()
        with borrowed(pool) as wire:
            sock = wire._connection._sock
        circle = [sock]  # the collector comes to the socket first
        circle += [circle, pool]
        kept.append(circle)
        return weakref.ref(sock)

    sockets = [make_a_circle() for _ in range(5)]
    gc.collect()  # sorts what it visits: first the circles, then what they refer to
    kept.clear()
    gc.collect()  # an unclosed socket would be a ResourceWarning, which is an error in tests
    assert not any(sock() for sock in sockets)


def test_failed_connections_are_not_kept():
    pool = Redis(RedisSettings(url="redis://localhost:1"), size=1)
    made = weakref.WeakSet()
    with borrowed(pool) as wire:
        make = wire._make
        wire._make = lambda: made.add(connection := make()) or connection
        for _ in range(20):
            with pytest.raises(RedisUnavailable):
                wire.exchange([("PING",)], time.monotonic() + 10)
    gc.collect()
    assert len(made) <= 2
