"""The last failed attempts of a job."""

from __future__ import annotations

from offsider.storage import attempts
from offsider.storage.attempts import LogLine, NewAttempt

NOW = 1_800_000_000.0
LINES = [LogLine(NOW, "INFO", "text")]


def add(pool, jid: str, raw: bytes = b"1", keep_seconds: float = 60.0, now: float = NOW) -> None:
    attempts.add(pool, [NewAttempt(jid, NOW, raw, keep_seconds, LINES)], now)


def test_the_newest_ten_are_kept_until_they_expire(pool, raw_redis):
    for number in range(12):
        add(pool, "a", b"%d" % number, 60.0 + number)
    assert attempts.read(pool, "a") == ([b"%d" % number for number in range(11, 1, -1)], {NOW: LINES})
    assert 60 < raw_redis.ttl("offsider:attempts:a") <= 71


def test_a_life_of_less_than_a_second_is_one(pool):
    add(pool, "a", keep_seconds=0.0)
    assert attempts.read(pool, "a")[0] == [b"1"]


def test_jobs_are_forgotten_together(pool, raw_redis):
    for jid in "abc":
        add(pool, jid)
    attempts.forget(pool, ["a", "b", "nobody"])
    attempts.forget(pool, [])
    attempts.add(pool, [], NOW)
    assert set(raw_redis.keys()) == {b"offsider:attempts:c", b"offsider:attempts:c:log", b"offsider:attempts"}
    assert raw_redis.zrange("offsider:attempts", 0, -1) == [b"c"]


def test_the_jobs_that_failed_longest_ago_make_room(pool, raw_redis, monkeypatch):
    monkeypatch.setattr(attempts, "MAX_JOBS", 2)
    for number, jid in enumerate("abac"):
        add(pool, jid, now=NOW + number)
    assert [len(attempts.read(pool, jid)[0]) for jid in "abc"] == [2, 0, 1]
    assert attempts.read(pool, "b") == ([], {})
    assert raw_redis.zcard("offsider:attempts") == 2
