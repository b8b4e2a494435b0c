"""Told by the server where that is possible, by looking again where it is not; ended from any thread."""

import threading
import time

import pytest

from offsider.core.errors import RedisUnavailable
from offsider.storage.redis import Redis, RedisSettings
from offsider.worker import lookout as module
from offsider.worker.lookout import Lookout
from tests.waiting import wait_for

PATIENT = 30.0


def made(url: str, **settings) -> Lookout:
    return Lookout(Redis(RedisSettings(url=url, socket_timeout_seconds=PATIENT, **settings), size=1), ["a"], "signal")


@pytest.fixture
def lookout(redis_url):
    lookout = made(redis_url)
    yield lookout
    lookout.close()


def test_a_change_ends_the_sleep(lookout, raw_redis):
    assert lookout.exchange([("GET", "a")]) == [None]
    assert lookout.is_told
    raw_redis.set("a", 1)
    lookout.sleep(3600)


def test_a_signal_ends_the_sleep_each_time(lookout, raw_redis):
    for _ in range(2):
        lookout.exchange([("GET", "a")])
        raw_redis.set("signal", 1)
        lookout.sleep(3600)


def test_changes_of_other_keys_do_not_end_the_sleep(lookout, raw_redis):
    """The script that moves jobs names their queues, and Redis 7.0 tells when these change."""
    lookout.exchange([("GET", "other"), ("GET", "a")])
    raw_redis.set("other", 1)
    started = time.monotonic()
    lookout.sleep(0.2)
    assert time.monotonic() - started >= 0.2


def test_an_end_ends_the_sleep_and_every_later_one(lookout):
    lookout.exchange([("GET", "a")])
    threading.Timer(0.05, lookout.end).start()
    lookout.sleep(3600)
    lookout.sleep(3600)
    lookout.end()


def test_an_end_before_the_first_sleep_counts(lookout):
    lookout.end()
    lookout.sleep(3600)


def test_an_end_after_the_close_is_no_error(lookout):
    lookout.sleep(0)
    lookout.close()
    lookout.end()
    lookout.sleep(3600)


def test_who_is_refused_asks_again_after_a_while(redis_url, raw_redis, monkeypatch):
    raw_redis.execute_command("ACL", "SETUSER", "blind", "on", ">blind", "~*", "+@all", "-client|tracking")
    blind = made(redis_url, username="blind", password="blind")
    for _ in range(2):
        assert blind.exchange([("SET", "a", 1), ("GET", "a")]) == [b"OK", b"1"]
        assert not blind.is_told
    raw_redis.execute_command("ACL", "SETUSER", "blind", "+client|tracking")
    blind.exchange([("GET", "a")])
    assert not blind.is_told, "asking each time would cost a connection each time"
    blind._track_at = 0.0
    blind.exchange([("GET", "a")])
    assert blind.is_told
    blind.close()
    raw_redis.execute_command("ACL", "DELUSER", "blind")


def test_refused_again_is_not_told_again(redis_url, raw_redis, monkeypatch, caplog):
    monkeypatch.setattr(module, "REFUSED_SECONDS", 0.0)
    raw_redis.execute_command("ACL", "SETUSER", "blind", "on", ">blind", "~*", "+@all", "-client|tracking")
    blind = made(redis_url, username="blind", password="blind")
    with caplog.at_level("INFO", "offsider"):
        for _ in range(3):
            blind.exchange([("GET", "a")])
    assert len(caplog.records) == 1
    blind.close()
    raw_redis.execute_command("ACL", "DELUSER", "blind")


def test_a_connection_that_breaks_ends_the_sleep_and_is_done_without(raw_redis, proxy):
    lookout = made(proxy.url)
    lookout.exchange([("GET", "a")])
    proxy.close()
    lookout.sleep(3600)
    assert not lookout.is_told
    assert lookout.exchange([("GET", "a")]) == [None]
    assert not lookout.is_told
    lookout.close()


def test_a_server_that_is_away_is_told_by_the_pool(raw_redis, proxy):
    lookout = made(proxy.url)
    proxy.refuse()
    with pytest.raises(RedisUnavailable):
        lookout.exchange([("GET", "a")])
    proxy.accept()
    wait_for(lambda: lookout.exchange([("GET", "a")]) == [None])
    lookout.close()
