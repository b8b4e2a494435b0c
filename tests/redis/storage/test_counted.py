"""The jobs counted by a bulk action, stored until its confirmation."""

from __future__ import annotations

from offsider.storage import counted


def test_fields_are_added_and_all_expire_together(pool, raw_redis):
    counted.keep(pool, "a", {"head": b"1", "jobs:0": b"\x00\xff"})
    counted.keep(pool, "a", {"head": b"2", "jobs:1": b"x"})
    assert counted.read(pool, "a") == {"head": b"2", "jobs:0": b"\x00\xff", "jobs:1": b"x"}
    assert 3_500 < raw_redis.ttl("offsider:counted:a") <= 3_600


def test_an_unknown_count_has_no_fields(pool):
    assert counted.read(pool, "a") == {}
