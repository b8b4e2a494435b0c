"""The last failed attempts of a job."""

from __future__ import annotations

from offsider.storage import attempts

NOW = 1_800_000_000.0


def test_the_newest_ten_are_kept_until_they_expire(pool, raw_redis):
    attempts.add(pool, [("a", b"%d" % number, 60.0 + number) for number in range(12)], NOW)
    assert attempts.read(pool, "a") == [b"%d" % number for number in range(11, 1, -1)]
    assert 60 < raw_redis.ttl("offsider:attempts:a") <= 71


def test_a_life_of_less_than_a_second_is_one(pool):
    attempts.add(pool, [("a", b"1", 0.0)], NOW)
    assert attempts.read(pool, "a") == [b"1"]


def test_jobs_are_forgotten_together(pool, raw_redis):
    attempts.add(pool, [("a", b"1", 60.0), ("b", b"1", 60.0), ("c", b"1", 60.0)], NOW)
    attempts.forget(pool, ["a", "b", "nobody"])
    attempts.forget(pool, [])
    attempts.add(pool, [], NOW)
    assert set(raw_redis.keys()) == {b"offsider:attempts:c", b"offsider:attempts"}
    assert raw_redis.zrange("offsider:attempts", 0, -1) == [b"c"]


def test_the_jobs_that_failed_longest_ago_make_room(pool, raw_redis, monkeypatch):
    monkeypatch.setattr(attempts, "MAX_JOBS", 2)
    for number, jid in enumerate("abac"):
        attempts.add(pool, [(jid, b"1", 60.0)], NOW + number)
    assert [len(attempts.read(pool, jid)) for jid in "abc"] == [2, 0, 1]
    assert raw_redis.zcard("offsider:attempts") == 2
