"""Switches as they are stored: set, read, over by the server's clock, cleared."""

from __future__ import annotations

import pytest

from offsider.storage import switches
from offsider.storage.switches import Switch
from tests.snapshot import snapshot

DROP = Switch("HardJob", "drop", keep=False, by="ann", reason="the bank is down")
DEFER = Switch("Züri.Job", "defer", delay_seconds=300.0)


def server_time(raw_redis) -> float:
    seconds, microseconds = raw_redis.time()
    return seconds + microseconds / 1e6


def test_a_switch_round_trips_with_the_times_of_the_server(pool, raw_redis):
    before = server_time(raw_redis)
    dropped = switches.put(pool, DROP)
    deferred = switches.put(pool, DEFER, seconds=60)
    board = switches.read(pool)
    assert board.on == {"HardJob": dropped, "Züri.Job": deferred}
    assert board.over == {}
    assert before - 0.01 <= dropped.since <= board.now
    assert (dropped.until, dropped.by, dropped.reason, dropped.keep) == (None, "ann", "the bank is down", False)
    assert deferred.until == deferred.since + 60
    assert deferred.delay_seconds == 300.0


def test_a_class_has_one_switch_and_setting_it_again_resets_its_counts(pool):
    switches.put(pool, DROP)
    switches.count(pool, {"HardJob": 3, "Züri.Job": 1})
    assert switches.counts(pool) == {"HardJob": 3, "Züri.Job": 1}
    again = switches.put(pool, Switch("HardJob", "defer", delay_seconds=5))
    assert switches.read(pool).on == {"HardJob": again}
    assert switches.counts(pool) == {"Züri.Job": 1}


def test_an_expired_switch_is_none_and_can_be_deleted_once(pool, raw_redis):
    switches.put(pool, DEFER, seconds=-1)
    board = switches.read(pool)
    assert board.on == {}
    ((name, stored),) = board.over.items()
    switches.put(pool, DROP)
    assert not switches.forget(pool, name, b"another")
    assert switches.forget(pool, name, stored)
    assert not switches.forget(pool, name, stored)
    assert raw_redis.hkeys("offsider:switches") == [b"HardJob"]


def test_a_cleared_switch_leaves_nothing(pool, raw_redis):
    switches.put(pool, DROP)
    switches.count(pool, {"HardJob": 3})
    assert switches.clear(pool, "HardJob")
    assert not switches.clear(pool, "HardJob")
    assert set(snapshot(raw_redis)) == {"offsider:controls:version"}


@pytest.mark.parametrize(
    "stored",
    ["", "[]", "7", '{"action":"burn","delay_seconds":1,"since":1}', '{"action":"drop"}', "[" * 100_000, "\xff",
     '{"action":"drop","delay_seconds":"x","since":1}', '{"action":"drop","delay_seconds":null,"since":1}'],
)  # fmt: skip
def test_an_unreadable_switch_is_ignored(pool, raw_redis, stored):
    raw_redis.hset("offsider:switches", "HardJob", stored)
    board = switches.read(pool)
    assert (board.on, board.over) == ({}, {})
