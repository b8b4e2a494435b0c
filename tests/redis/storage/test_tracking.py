"""The server reports changed keys; a connection that may not track is refused clearly, and polls."""

import os
import socket
import threading
import time
from contextlib import contextmanager

import pytest
from redis._parsers import _RESP3Parser

from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.storage import redis as redis_module, tracking as module
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.due_jobs import DUE_JOBS
from offsider.storage.redis import RedisSettings
from offsider.storage.tracking import Tracking
from tests.waiting import wait_for

A, B, C, END, LEASE, SCHEDULE, PAUSED = (
    f"{DEFAULT_PREFIX}{name}" for name in ("a", "b", "c", "end", "lease", "schedule", "paused")
)
SHOP = f"{DEFAULT_PREFIX}shop:"

PATIENT = 30.0


@contextmanager
def tracked(url: str, **settings):
    tracking = Tracking(RedisSettings(url=url, socket_timeout_seconds=PATIENT, **settings))
    try:
        yield tracking
    finally:
        tracking.close()


@pytest.fixture
def tracking(redis_url):
    with tracked(redis_url) as tracking:
        yield tracking


@pytest.fixture
def proxied_tracking(proxy):
    with tracked(proxy.url) as tracking:
        yield tracking


# ------------------------------------------------------------------------------------- watching


def test_a_changed_watched_key_is_reported_once(tracking, raw_redis):
    tracking.watch(A, B, C)
    raw_redis.lpush(A, 1)
    raw_redis.lpush(A, 2)
    raw_redis.zadd(B, {"x": 1})
    reported = tracking.wait(PATIENT)
    while reported != {A, B}:
        reported |= tracking.wait(PATIENT)
    assert tracking.changed() == set()


def test_the_parser_in_python_does_it_as_well(redis_url, raw_redis, monkeypatch):
    """hiredis is an extra."""
    options = redis_module.connection_options
    monkeypatch.setattr(
        redis_module,
        "connection_options",
        lambda *given, **named: options(*given, **named) | {"parser_class": _RESP3Parser},
    )
    with tracked(redis_url) as tracking:
        tracking.watch(A)
        assert tracking.wait(0.01) == set()
        raw_redis.set(A, 1)
        assert tracking.wait(PATIENT) == {A}
        assert tracking.read([A], [("SET", A, 2), ("GET", A)]) == [b"OK", b"2"]
        assert tracking.changed() == set()


def test_keys_that_were_not_read_are_not_reported(tracking, raw_redis):
    tracking.watch(A)
    raw_redis.set(C, 1)
    raw_redis.set(A, 1)
    assert tracking.wait(PATIENT) == {A}


def test_a_reported_key_is_watched_again_after_the_next_read(tracking, raw_redis):
    for _ in range(3):
        tracking.watch(A)
        raw_redis.incr(A)
        assert tracking.wait(PATIENT) == {A}


def test_keys_read_by_a_script_are_watched(tracking, raw_redis):
    keys = [LEASE, SCHEDULE]
    (reply,) = tracking.read(keys, [DUE_JOBS.by_text(keys, ["me", 60_000, 10])])
    assert reply == [b"1", [b"", []]]
    assert tracking.watches(SCHEDULE)
    raw_redis.zadd(SCHEDULE, {"job": 1.0})
    assert tracking.wait(PATIENT) == {SCHEDULE}


def test_a_read_without_the_lease_watches_nothing(tracking, raw_redis):
    """Else every process would wake for every job that is scheduled or fails."""
    keys = [LEASE, SCHEDULE]
    raw_redis.set(LEASE, "somebody 9000000000")
    tracking.watch(END)
    assert tracking.read([], [DUE_JOBS.by_text(keys, ["me", 60_000, 10])])[0][0] == b"0"
    raw_redis.zadd(SCHEDULE, {"job": 1.0})
    raw_redis.delete(LEASE)
    raw_redis.set(END, 1)
    assert tracking.wait(PATIENT) == {END}


def test_invalidations_before_the_reply_are_older_than_the_reply(tracking, raw_redis):
    """Otherwise a thread that moves jobs on this connection would wake itself."""
    tracking.watch(A, B)
    raw_redis.set(A, 1)
    raw_redis.set(B, 1)
    wait_for(lambda: tracking._connection.can_read(0))
    replies = tracking.read([A], [("SET", A, 2), ("LPUSH", A, 1), ("GET", A)])
    assert (replies[0], replies[2]) == (b"OK", b"2")
    assert isinstance(replies[1], RedisRefused)
    assert tracking.changed() == {B}


def test_an_emptied_server_has_changed_every_key(tracking, raw_redis):
    tracking.watch(A, B)
    raw_redis.flushall()
    assert tracking.wait(PATIENT) == {A, B}


def test_keys_have_the_prefix_and_any_name(redis_url, raw_redis):
    with tracked(redis_url, key_prefix=SHOP) as tracking:
        assert not tracking.watch_lists(["höh"])
        raw_redis.lpush(f"{SHOP}queue:höh", 1)
        assert tracking.wait(PATIENT) == {f"{SHOP}queue:höh"}


def test_a_watch_that_the_server_refuses_is_an_error(tracking, raw_redis):
    raw_redis.execute_command("ACL", "SETUSER", "few", "on", ">few", f"~{A}*", "+@all")
    url = f"{tracking._settings.url}"
    with tracked(url, username="few", password="few") as few:
        few.watch(A)
        with pytest.raises(RedisRefused) as refused:
            few.watch(B)
        assert refused.value.code == "NOPERM"
    raw_redis.execute_command("ACL", "DELUSER", "few")


def test_a_connection_is_pinged_only_after_a_silence(tracking, raw_redis, monkeypatch):
    tracking.watch("a")
    raw_redis.config_resetstat()
    tracking.prove()
    assert "cmdstat_ping" not in raw_redis.info("commandstats")
    monkeypatch.setattr(module, "TRUSTED_SECONDS", 0.0)
    tracking.prove()
    assert raw_redis.info("commandstats")["cmdstat_ping"]["calls"] == 1
    assert tracking.watches("a")


def test_a_change_that_precedes_the_reply_to_a_ping_is_heard(tracking, raw_redis, monkeypatch):
    monkeypatch.setattr(module, "TRUSTED_SECONDS", 0.0)
    tracking.watch("a")
    raw_redis.set("a", 1)
    tracking.prove()
    assert not tracking.watches("a")
    assert tracking.changed() == {"a"}


def test_a_ping_detects_a_lost_connection(tracking, raw_redis, monkeypatch):
    monkeypatch.setattr(module, "TRUSTED_SECONDS", 0.0)
    tracking.watch("a")
    raw_redis.client_kill_filter(_type="normal", skipme=True)
    with pytest.raises(RedisUnavailable):
        tracking.prove()
    assert not tracking.watches("a")


# ---------------------------------------------------------------------------------------- lists


def test_lists_that_are_empty_and_watched_are_not_read_again(tracking, raw_redis):
    assert not tracking.watch_lists(["a", "b"])
    before = raw_redis.info("commandstats")["cmdstat_llen"]["calls"]
    assert not tracking.watch_lists(["a", "b"])
    assert raw_redis.info("commandstats")["cmdstat_llen"]["calls"] == before
    assert not tracking.watch_lists(["a", "b", "c"])
    assert raw_redis.info("commandstats")["cmdstat_llen"]["calls"] == before + 1


def test_lists_are_read_again_periodically_to_detect_a_lost_server(tracking, raw_redis, monkeypatch):
    assert not tracking.watch_lists(["a"])
    before = raw_redis.info("commandstats")["cmdstat_llen"]["calls"]
    monkeypatch.setattr(module, "TRUSTED_SECONDS", 0.0)
    assert not tracking.watch_lists(["a"])
    assert raw_redis.info("commandstats")["cmdstat_llen"]["calls"] == before + 1


def test_a_list_is_reported_at_once_if_it_has_jobs_and_else_when_it_gets_some(tracking, raw_redis):
    raw_redis.lpush("queue:b", 1)
    assert tracking.watch_lists(["a", "b"])
    raw_redis.delete("queue:b")
    tracking.wait(PATIENT)
    assert not tracking.watch_lists(["a", "b"])
    raw_redis.lpush("queue:a", 1)
    wait_for(lambda: tracking._connection.can_read(0))
    assert tracking.watch_lists(["a", "b"])


def test_other_watched_keys_are_reported_too(tracking, raw_redis):
    tracking.watch(PAUSED)
    assert not tracking.watch_lists(["a"])
    raw_redis.sadd(PAUSED, "a")
    wait_for(lambda: tracking._connection.can_read(0))
    assert not tracking.watch_lists(["a"])
    assert tracking.changed() == {PAUSED}


def test_a_queue_of_the_wrong_type_does_not_count(tracking, raw_redis):
    raw_redis.set("queue:bad", 1)
    assert not tracking.watch_lists(["bad"])


def test_lists_that_may_not_be_read_are_an_error(redis_url, raw_redis):
    raw_redis.execute_command("ACL", "SETUSER", "few", "on", ">few", f"~{A}*", "+@all")
    with tracked(redis_url, username="few", password="few") as few, pytest.raises(RedisRefused):
        few.watch_lists(["b"])
    raw_redis.execute_command("ACL", "DELUSER", "few")


# -------------------------------------------------------------------------------------- waiting


def test_a_wait_ends_when_its_time_is_over(tracking):
    tracking.watch(A)
    assert tracking.wait(0.01) == set()
    assert tracking.wait(-1) == set()


def test_a_wait_ends_when_another_descriptor_is_readable(tracking):
    tracking.watch(A)
    reading, writing = socket.socketpair()
    with reading, writing:
        threading.Timer(0.05, writing.send, [b"!"]).start()
        started = time.monotonic()
        assert tracking.wait(PATIENT, reading) == set()
        assert time.monotonic() - started < PATIENT


def test_a_wait_sees_data_already_read_from_the_socket(tracking, raw_redis):
    """select() does not see bytes that the parser has already read."""
    tracking.watch(A, B)
    raw_redis.set(A, 1)
    raw_redis.set(B, 1)
    reported = tracking.wait(PATIENT)
    while reported != {A, B}:
        reported |= tracking.wait(PATIENT)


def test_without_a_connection_only_the_others_are_waited_for():
    tracking = Tracking(RedisSettings())
    assert not tracking.is_open
    assert tracking.changed() == set()
    assert tracking.wait(0.01) == set()
    tracking.close()


def test_the_socket_can_be_waited_on_by_a_selector_of_the_callers(tracking):
    tracking.open()
    assert os.fstat(tracking.fileno())


# ------------------------------------------------------------------------------------- refusals


def test_a_user_who_may_not_track_is_refused(redis_url, raw_redis):
    raw_redis.execute_command("ACL", "SETUSER", "blind", "on", ">blind", "~*", "+@all", "-client|tracking")
    with tracked(redis_url, username="blind", password="blind") as blind:
        with pytest.raises(RedisRefused) as refused:
            blind.watch(A)
        assert refused.value.code == "NOPERM"
        assert not blind.is_open
    raw_redis.execute_command("ACL", "DELUSER", "blind")


def test_a_server_without_hello_refuses(make_server):
    server = make_server(without=["HELLO"])
    with tracked(server.url) as tracking, pytest.raises(RedisRefused):
        tracking.open()


# --------------------------------------------------------------------------------------- faults


def test_a_server_that_cannot_be_reached_is_not_ambiguous(proxied_tracking, proxy):
    proxy.refuse()
    with pytest.raises(RedisUnavailable) as failure:
        proxied_tracking.open()
    assert not failure.value.ambiguous


def test_a_lost_reply_is_ambiguous(proxied_tracking, proxy, raw_redis):
    proxied_tracking.open()
    proxy.lose_reply(b"SET")
    with pytest.raises(RedisUnavailable) as failure:
        proxied_tracking.read([A], [("SET", A, 1)])
    assert failure.value.ambiguous
    assert raw_redis.get(A) == b"1"
    assert not proxied_tracking.is_open


def test_a_connection_lost_while_waiting_is_reported_and_the_next_read_starts_over(proxied_tracking, proxy, raw_redis):
    proxied_tracking.watch(A)
    proxy.close()
    with pytest.raises(RedisUnavailable):
        proxied_tracking.wait(PATIENT)
    assert not proxied_tracking.is_open
    proxied_tracking.watch(A)
    raw_redis.set(A, 1)
    assert proxied_tracking.wait(PATIENT) == {A}


def test_an_interrupted_read_leaves_no_unread_reply(tracking, monkeypatch):
    tracking.open()

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(tracking, "_reply", interrupt)
    with pytest.raises(KeyboardInterrupt):
        tracking.read([A], [("GET", A)])
    monkeypatch.undo()
    assert not tracking.is_open
    assert tracking.read([A], [("PING",)]) == [b"PONG"]


@pytest.mark.not_on_cluster("REPLICAOF is not allowed on a node")
def test_a_server_that_became_a_replica_is_left(tracking, raw_redis):
    """The master has changed, and the next connection goes to the new one."""
    raw_redis.replicaof("127.0.0.1", 1)
    try:
        (reply,) = tracking.read([A], [("SET", A, 1)])
        assert reply.code == "READONLY"
        assert not tracking.is_open
    finally:
        raw_redis.replicaof("NO", "ONE")


def test_tracking_may_restart_any_number_of_times(redis_url):
    """Each lost connection is a new redis-py connection, and redis-py stops at a hundred."""
    tracking = Tracking(RedisSettings(url=redis_url))
    for _ in range(110):
        tracking.open()
        tracking.close()
