"""The jobs of one dead owner: fenced first, then moved, each told (rules 2, 3, 5)."""

from __future__ import annotations

import logging

import pytest

from offsider.core.payload import decode, encode
from offsider.storage.owners import Lists
from offsider.worker.reclaim import reclaim

IDENTITY = "host:2:dddddddddddd"
LISTS = Lists(IDENTITY, {"default": ("high", "low")})
HIGH, LOW = (f"offsider:working:{IDENTITY}:default:{queue}" for queue in ("high", "low"))
ALIVE, FENCED = f"offsider:alive:{IDENTITY}", f"offsider:fenced:{IDENTITY}"


def payload(number: int, **extra) -> bytes:
    return encode({"class": "HardJob", "args": [number], "jid": f"{number:024x}", "queue": "low"} | extra)


@pytest.fixture
def redis(parts):
    return parts.redis


def test_who_beats_is_left_alone(redis, raw_redis):
    raw_redis.lpush(LOW, payload(1))
    raw_redis.set(ALIVE, 1)
    assert reclaim(redis, LISTS) is None
    assert not raw_redis.exists(FENCED)
    assert raw_redis.llen(LOW) == 1


def test_a_death_that_was_seen_needs_no_silence(redis, raw_redis, caplog):
    raw_redis.lpush(LOW, payload(1), payload(2))
    raw_redis.lpush(HIGH, payload(3))
    raw_redis.set(ALIVE, 1)
    with caplog.at_level(logging.WARNING, "offsider"):
        assert reclaim(redis, LISTS, proven=True) == 3
    assert [decode(raw)["args"] for raw in reversed(raw_redis.lrange("queue:low", 0, -1))] == [[1], [2]]
    assert raw_redis.llen("queue:high") == 1
    assert raw_redis.exists(FENCED)
    assert not raw_redis.exists(ALIVE, LOW, HIGH)
    assert f"{IDENTITY} is dead; gave its 3 jobs back" in caplog.text


def test_each_job_is_told_of_with_the_bytes_that_were_stored(redis, raw_redis):
    told = []
    raw_redis.lpush(LOW, payload(1), b"no job")
    reclaim(redis, LISTS, announce=told.append)
    assert {news.raw for news in told} == set(raw_redis.lrange("queue:low", 0, -1))
    assert sorted((news.queue, news.identity, news.interrupted_count) for news in told) == [
        ("low", IDENTITY, 0),
        ("low", IDENTITY, 1),
    ]


def test_an_owner_without_jobs_is_fenced_and_nothing_is_said(redis, raw_redis, caplog):
    with caplog.at_level(logging.WARNING, "offsider"):
        assert reclaim(redis, LISTS) == 0
    assert raw_redis.exists(FENCED)
    assert not caplog.text


def test_a_second_call_takes_what_the_first_one_had_to_leave(redis, raw_redis):
    raw_redis.lpush(LOW, payload(1))
    raw_redis.set("queue:low", "wrong")
    assert reclaim(redis, LISTS, proven=True) == 0
    raw_redis.delete("queue:low")
    raw_redis.set(ALIVE, 1)
    assert reclaim(redis, LISTS) == 1, "it is fenced: no beat of it counts any more"
