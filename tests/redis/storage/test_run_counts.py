"""Counts are written together, or not at all."""

from __future__ import annotations

import logging

import pytest

from offsider.core.errors import QueueFull
from offsider.core.series import Series
from offsider.storage import run_counts
from offsider.storage.execution_metrics import JobCounts

JOB = JobCounts("A", 1, 0, 5, [1] + [0] * 25)
NOW = 1_800_000_000.0


def test_metrics_and_sums_are_written_in_one_transaction(pool, raw_redis):
    run_counts.add(pool, [JOB], [Series({"class": "A"}, processed=1)], NOW, wire_version=8)
    assert {key.split(b"|")[0].split(b":")[0] for key in raw_redis.scan_iter()} == {b"j", b"h", b"offsider"}


def test_a_full_server_has_taken_nothing(pool, raw_redis):
    raw_redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(QueueFull):
            run_counts.add(pool, [JOB], [Series({"class": "A"}, processed=1)], NOW, wire_version=8)
    finally:
        raw_redis.config_set("maxmemory", 0)
    assert raw_redis.keys() == []


def test_a_count_that_is_refused_is_told_and_the_others_are_written(pool, raw_redis, caplog):
    raw_redis.set("j|270115|8:00", "a string")
    with caplog.at_level(logging.ERROR):
        run_counts.add(pool, [JOB], [], NOW, wire_version=8)
    assert "the metrics in j|270115|8:00 lost a count" in caplog.text
    assert raw_redis.hgetall("j|270115|8:0") == {b"A|ms": b"5", b"A|p": b"1"}
