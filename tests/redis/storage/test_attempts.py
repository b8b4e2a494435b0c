"""The last failed attempts of a job."""

from __future__ import annotations

from offsider.storage import attempts


def test_the_newest_ten_are_kept_as_long_as_told(pool, raw_redis):
    attempts.add(pool, [("a", b"%d" % number, 60.0 + number) for number in range(12)])
    assert attempts.read(pool, "a") == [b"%d" % number for number in range(11, 1, -1)]
    assert 60 < raw_redis.ttl("offsider:attempts:a") <= 71


def test_a_life_of_less_than_a_second_is_one(pool):
    attempts.add(pool, [("a", b"1", 0.0)])
    assert attempts.read(pool, "a") == [b"1"]


def test_jobs_are_forgotten_together(pool, raw_redis):
    attempts.add(pool, [("a", b"1", 60.0), ("b", b"1", 60.0), ("c", b"1", 60.0)])
    attempts.forget(pool, ["a", "b", "nobody"])
    attempts.forget(pool, [])
    attempts.add(pool, [])
    assert raw_redis.keys() == [b"offsider:attempts:c"]
