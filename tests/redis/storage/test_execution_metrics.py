"""Sidekiq's execution metrics; their exact form is held by golden dumps, see tests/contract."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from offsider.core.series import Series
from offsider.storage import execution_metrics, run_counts
from offsider.storage.execution_metrics import BUCKETS, ClassCounts, DeployMark
from tests.runs import counts

AT = datetime(2026, 11, 20, 9, 5, 30, tzinfo=UTC)


def write(pool, *jobs: Series, at: datetime = AT, wire_version: int = 8) -> None:
    run_counts.add(pool, jobs, at.timestamp(), wire_version=wire_version)


@pytest.mark.parametrize("wire_version", [6, 7, 8])
def test_metrics_of_every_wire_version_are_read(pool, wire_version):
    write(pool, counts("A", 2, 1, 30, [0.0]), counts("B|odd", 1, 0, 7), wire_version=wire_version)
    write(pool, counts("A", 3, 0, 12, [400.0, 400.0]), wire_version=wire_version)
    both = {"A": ClassCounts(5, 1, 42), "B|odd": ClassCounts(1, 0, 7)}
    assert execution_metrics.minutes(pool, [AT, AT + timedelta(minutes=1)]) == [both, {}]
    assert execution_metrics.ten_minutes(pool, [AT]) == [both]
    assert execution_metrics.minutes_of(pool, "A", [AT]) == [(ClassCounts(5, 1, 42), [1, *[0] * 24, 2])]


def test_versions_are_added_up(pool):
    write(pool, counts("A", 2, 1, 30), wire_version=7)
    write(pool, counts("A", 2, 1, 30), wire_version=8)
    assert execution_metrics.minutes(pool, [AT]) == [{"A": ClassCounts(4, 2, 60)}]


def test_keys_that_others_have_spoilt_are_read_as_nothing(pool, raw_redis):
    write(pool, counts("A", 2, 1))
    raw_redis.hset("j|261120|9:05", mapping={b"A|ms": b"many", b"\xff|p": b"1", b"nonsense": b"1"})
    raw_redis.set("j|261120|9:06", "a string")
    raw_redis.rpush("h|A-20-9:6", "a list")
    read = execution_metrics.minutes(pool, [AT, AT + timedelta(minutes=1)])
    assert (read[0]["A"], read[1]) == (ClassCounts(2, 1, 0), {})
    raw_redis.hset("j|261120|9:05", "A|p", "9" * 400)
    assert execution_metrics.minutes(pool, [AT])[0]["A"] == ClassCounts(0, 1, 0)
    (counted,) = execution_metrics.minutes_of(pool, "A", [AT + timedelta(minutes=1)])
    assert counted == (ClassCounts(), [0] * BUCKETS)


def test_a_deploy_is_marked_once_a_minute_by_any_process(pool, raw_redis):
    assert execution_metrics.mark(pool, "v1", AT)
    assert not execution_metrics.mark(pool, "v1", AT + timedelta(minutes=3)), "within a minute of the server's clock"
    assert not execution_metrics.mark(pool, "v2", AT), "its minute has a mark already"
    assert execution_metrics.mark(pool, "v3", AT + timedelta(days=1))
    assert 0 < raw_redis.ttl("deploylock-v1") <= 60
    found = execution_metrics.marks(pool, AT - timedelta(hours=1), AT + timedelta(days=2))
    first = AT.replace(second=0)
    assert found == [DeployMark(first.timestamp(), "v1"), DeployMark((first + timedelta(days=1)).timestamp(), "v3")]


def test_marks_outside_of_the_period_and_those_without_a_time_are_left_out(pool, raw_redis):
    execution_metrics.mark(pool, "v1", AT)
    raw_redis.hset("20261120-marks", mapping={"yesterday": "x", "2026-11-20T09:30:00": "no zone"})
    assert execution_metrics.marks(pool, AT, AT) == [DeployMark(AT.replace(second=0).timestamp(), "v1")]
    later = execution_metrics.marks(pool, AT + timedelta(minutes=5), AT + timedelta(hours=1))
    assert [mark.label for mark in later] == ["no zone"]
