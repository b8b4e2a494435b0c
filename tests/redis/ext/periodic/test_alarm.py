"""Sleeping until a moment, a change, or the end."""

from __future__ import annotations

import os
import threading
import time

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import RedisRefused
from offsider.ext.periodic.alarm import TOLD_SECONDS, UNTOLD_SECONDS, Alarm
from tests.faults import FaultProxy
from tests.waiting import wait_for

LONG = 50.0


@pytest.fixture
def make_alarm():
    made = []

    def make(url: str) -> Alarm:
        config = Config()
        config.redis.url = url
        made.append((config, Alarm(Installation.of(config).redis, "{offsider}:test:revision")))
        return made[-1][1]

    yield make
    for config, alarm in made:
        alarm.close()
        Installation.of(config).close()


def asleep(alarm: Alarm, seconds: float = LONG) -> threading.Thread:
    thread = threading.Thread(target=alarm.sleep, args=(seconds,))
    thread.start()
    wait_for(lambda: alarm._pipe._pipe)
    return thread


def ends(thread: threading.Thread) -> bool:
    thread.join(20)
    return not thread.is_alive()


def test_a_change_ends_the_sleep_and_the_next_change_after_another_watch_too(make_alarm, redis_url, raw_redis):
    alarm = make_alarm(redis_url)
    for _ in range(2):
        alarm.watch()
        assert alarm.longest_seconds == TOLD_SECONDS
        sleeper = asleep(alarm)
        raw_redis.incr("{offsider}:test:revision")
        assert ends(sleeper)


def test_a_change_before_the_sleep_ends_it_as_well(make_alarm, redis_url, raw_redis):
    alarm = make_alarm(redis_url)
    alarm.watch()
    raw_redis.incr("{offsider}:test:revision")
    assert ends(asleep(alarm))


def test_a_sleep_lasts_as_long_as_it_should(make_alarm, redis_url):
    alarm = make_alarm(redis_url)
    alarm.watch()
    started = time.monotonic()
    alarm.sleep(0.05)
    assert time.monotonic() - started >= 0.049


def test_the_end_ends_this_sleep_and_every_later_one(make_alarm, redis_url):
    alarm = make_alarm(redis_url)
    sleeper = asleep(alarm)
    alarm.end()
    assert ends(sleeper)
    alarm.sleep(LONG)
    alarm.close()
    alarm.end()
    alarm.sleep(LONG)


def test_without_client_tracking_sleeps_are_shorter(make_alarm, redis_url, monkeypatch):
    alarm = make_alarm(redis_url)
    asked = []

    def refuse(*keys):
        asked.append(keys)
        raise RedisRefused("NOPERM no")

    monkeypatch.setattr(alarm._tracking, "watch", refuse)
    alarm.watch()
    alarm.watch()
    assert asked == [("{offsider}:test:revision",)]
    assert alarm.longest_seconds == UNTOLD_SECONDS


def test_after_a_lost_connection_sleeps_are_shorter_for_a_while(make_alarm, redis_url):
    with FaultProxy(redis_url) as proxy:
        alarm = make_alarm(proxy.url)
        alarm.watch()
        sleeper = asleep(alarm)
        proxy.refuse()
        assert ends(sleeper)
        assert alarm.longest_seconds == UNTOLD_SECONDS
        alarm._track_at = 0.0
        alarm.watch()
        assert alarm._track_at > time.monotonic()
        proxy.accept()
        alarm._track_at = 0.0
        alarm.watch()
        assert alarm.longest_seconds == TOLD_SECONDS


def test_close_closes_the_pipe(make_alarm, redis_url):
    alarm = make_alarm(redis_url)
    alarm.watch()
    alarm.sleep(0.0)
    pipe = alarm._pipe._pipe
    alarm.close()
    for end in pipe:
        with pytest.raises(OSError):
            os.fstat(end)
