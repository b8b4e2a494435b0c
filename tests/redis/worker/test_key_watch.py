"""Key changes reported by the server where possible, polled otherwise; waits end from any thread."""

import threading
import time

import pytest

from offsider.core.errors import RedisUnavailable
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.redis import Redis, RedisSettings
from offsider.worker import key_watch as module
from offsider.worker.key_watch import KeyWatch
from tests.waiting import wait_for

A, OTHER, SIGNAL = (f"{DEFAULT_PREFIX}{name}" for name in ("a", "other", "signal"))

PATIENT = 30.0


def made(url: str, **settings) -> KeyWatch:
    redis = Redis(RedisSettings(url=url, socket_timeout_seconds=PATIENT, **settings), size=1)
    return KeyWatch(redis, [A], lambda: SIGNAL)


@pytest.fixture
def key_watch(redis_url):
    key_watch = made(redis_url)
    yield key_watch
    key_watch.close()


def test_a_change_ends_the_sleep(key_watch, raw_redis):
    assert key_watch.exchange([("GET", A)]) == [None]
    assert key_watch.is_told
    raw_redis.set(A, 1)
    key_watch.sleep(3600)


def test_a_signal_ends_the_sleep_each_time(key_watch, raw_redis):
    for _ in range(2):
        key_watch.exchange([("GET", A)])
        raw_redis.set(SIGNAL, 1)
        key_watch.sleep(3600)


def test_changes_of_other_keys_do_not_end_the_sleep(key_watch, raw_redis):
    """The script that moves jobs names their queues, and Redis 7.0 reports when these change."""
    key_watch.exchange([("GET", OTHER), ("GET", A)])
    raw_redis.set(OTHER, 1)
    started = time.monotonic()
    key_watch.sleep(0.2)
    assert time.monotonic() - started >= 0.2


def test_an_end_ends_the_sleep_and_every_later_one(key_watch):
    key_watch.exchange([("GET", A)])
    threading.Timer(0.05, key_watch.end).start()
    key_watch.sleep(3600)
    key_watch.sleep(3600)
    key_watch.end()


def test_an_end_before_the_first_sleep_counts(key_watch):
    key_watch.end()
    key_watch.sleep(3600)


def test_an_end_after_the_close_is_not_an_error(key_watch):
    key_watch.sleep(0)
    key_watch.close()
    key_watch.end()
    key_watch.sleep(3600)


def test_a_refused_request_is_retried_later(redis_url, raw_redis, monkeypatch):
    raw_redis.execute_command("ACL", "SETUSER", "blind", "on", ">blind", "~*", "+@all", "-client|tracking")
    blind = made(redis_url, username="blind", password="blind")
    for _ in range(2):
        assert blind.exchange([("SET", A, 1), ("GET", A)]) == [b"OK", b"1"]
        assert not blind.is_told
    raw_redis.execute_command("ACL", "SETUSER", "blind", "+client|tracking")
    blind.exchange([("GET", A)])
    assert not blind.is_told, "asking each time would cost a connection each time"
    blind._track_at = 0.0
    blind.exchange([("GET", A)])
    assert blind.is_told
    blind.close()
    raw_redis.execute_command("ACL", "DELUSER", "blind")


def test_a_repeated_refusal_is_not_reported_again(redis_url, raw_redis, monkeypatch, caplog):
    monkeypatch.setattr(module, "REFUSED_SECONDS", 0.0)
    raw_redis.execute_command("ACL", "SETUSER", "blind", "on", ">blind", "~*", "+@all", "-client|tracking")
    blind = made(redis_url, username="blind", password="blind")
    with caplog.at_level("INFO", "offsider"):
        for _ in range(3):
            blind.exchange([("GET", A)])
    assert len(caplog.records) == 1
    blind.close()
    raw_redis.execute_command("ACL", "DELUSER", "blind")


def test_a_connection_that_breaks_ends_the_sleep_and_is_done_without(raw_redis, proxy):
    key_watch = made(proxy.url)
    key_watch.exchange([("GET", A)])
    proxy.close()
    key_watch.sleep(3600)
    assert not key_watch.is_told
    assert key_watch.exchange([("GET", A)]) == [None]
    assert not key_watch.is_told
    key_watch.close()


def test_an_unavailable_server_is_reported_by_the_pool(raw_redis, proxy):
    key_watch = made(proxy.url)
    proxy.refuse()
    with pytest.raises(RedisUnavailable):
        key_watch.exchange([("GET", A)])
    proxy.accept()
    wait_for(lambda: key_watch.exchange([("GET", A)]) == [None])
    key_watch.close()
