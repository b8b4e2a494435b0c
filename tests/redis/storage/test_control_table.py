"""Controls as they are stored: set, read, over by the server's clock, cleared."""

from __future__ import annotations

import pytest

from offsider.core.controls import Control
from offsider.inspector import EventLog
from offsider.storage import control_table
from tests.snapshot import snapshot

DROP = Control("HardJob", "drop", keep=False, by="ann", reason="the bank is down")
DEFER = Control("Züri.Job", "defer", delay_seconds=300.0)


def server_time(raw_redis) -> float:
    seconds, microseconds = raw_redis.time()
    return seconds + microseconds / 1e6


def test_a_control_round_trips_with_the_times_of_the_server(pool, raw_redis):
    before = server_time(raw_redis)
    dropped = control_table.put(pool, DROP)
    deferred = control_table.put(pool, DEFER, seconds=60)
    table = control_table.read(pool)
    assert table.on == {"HardJob": dropped, "Züri.Job": deferred}
    assert table.over == {}
    assert before - 0.01 <= dropped.since <= table.now
    assert (dropped.until, dropped.by, dropped.reason, dropped.keep) == (None, "ann", "the bank is down", False)
    assert deferred.until == deferred.since + 60
    assert deferred.delay_seconds == 300.0


def test_a_class_has_one_control_and_setting_it_again_resets_its_counts(pool):
    control_table.put(pool, DROP)
    control_table.count(pool, {"HardJob": 3, "Züri.Job": 1})
    assert control_table.counts(pool) == {"HardJob": 3, "Züri.Job": 1}
    again = control_table.put(pool, Control("HardJob", "defer", delay_seconds=5))
    assert control_table.read(pool).on == {"HardJob": again}
    assert control_table.counts(pool) == {"Züri.Job": 1}


def test_an_expired_control_is_none_and_can_be_deleted_once(pool, raw_redis):
    control_table.put(pool, DEFER, seconds=-1)
    table = control_table.read(pool)
    assert table.on == {}
    ((name, stored),) = table.over.items()
    control_table.put(pool, DROP)
    assert not control_table.forget(pool, name, b"another")
    assert control_table.forget(pool, name, stored)
    assert not control_table.forget(pool, name, stored)
    assert raw_redis.hkeys("offsider:controls") == [b"HardJob"]


def test_a_cleared_control_leaves_nothing(pool, raw_redis):
    control_table.put(pool, DROP)
    control_table.count(pool, {"HardJob": 3})
    assert control_table.clear(pool, "HardJob")
    assert not control_table.clear(pool, "HardJob")
    assert set(snapshot(raw_redis)) == {"offsider:controls:version"}


@pytest.mark.parametrize(
    "stored",
    ["", "[]", "7", '{"action":"burn","delay_seconds":1,"since":1}', '{"action":"drop"}', "[" * 100_000, "\xff",
     '{"action":"drop","delay_seconds":"x","since":1}', '{"action":"drop","delay_seconds":null,"since":1}'],
)  # fmt: skip
def test_an_unreadable_control_is_ignored(pool, raw_redis, stored):
    raw_redis.hset("offsider:controls", "HardJob", stored)
    table = control_table.read(pool)
    assert (table.on, table.over) == ({}, {})


def test_each_change_is_in_the_event_log_with_its_author(pool, config, raw_redis):
    control_table.put(pool, Control("queue=low", "hold", by="ann", reason="the bank is down"))
    control_table.clear(pool, "queue=low", by="kim")
    control_table.put(pool, DEFER, seconds=-1)
    control_table.put(pool, Control("queue=high", "hold"))
    raw_redis.srem("paused", "high")  # as Ruby does
    for subject, stored in control_table.read(pool).over.items():
        assert control_table.forget(pool, subject, stored)
    found = [(event.kind, event.subject, event.who) for event in EventLog(config).read()[::-1]]
    assert found[:4] == [
        ("control-set", "queue=low", "ann"),
        ("control-removed", "queue=low", "kim"),
        ("control-set", DEFER.subject, ""),
        ("control-set", "queue=high", ""),
    ]
    assert sorted(found[4:]) == [("control-ended", DEFER.subject, ""), ("control-removed", "queue=high", "")]
    assert EventLog(config).read()[-1].fields == {"action": "hold", "jobs": "held", "reason": "the bank is down"}


def test_the_pause_of_another_client_is_dated_once_when_it_is_first_seen(pool, config, raw_redis):
    raw_redis.sadd("paused", "low")
    (unknown,) = control_table.read(pool).on.values()
    assert (unknown.since, unknown.by) == (0, "")
    before = server_time(raw_redis)
    assert control_table.adopt(pool, unknown)
    assert not control_table.adopt(pool, unknown)
    (seen,) = control_table.read(pool).on.values()
    assert before - 0.01 <= seen.since <= server_time(raw_redis)
    assert [(event.kind, event.subject, event.who) for event in EventLog(config).read()] == [
        ("control-set", "queue=low", "")
    ]


def test_a_queue_that_is_paused_again_while_its_resumption_is_noted_stays_paused(pool, raw_redis):
    control_table.put(pool, Control("queue=low", "hold"))
    raw_redis.srem("paused", "low")  # as Ruby does
    ((subject, stored),) = control_table.read(pool).over.items()
    raw_redis.sadd("paused", "low")
    assert not control_table.forget(pool, subject, stored)
    assert raw_redis.smembers("paused") == {b"low"}
    assert set(control_table.read(pool).on) == {"queue=low"}
