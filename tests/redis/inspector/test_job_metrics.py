"""Metrics as they are read: periods, sums, order, histograms."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from offsider.config.installation import Installation
from offsider.core.clock import Clock
from offsider.core.errors import ConfigurationError
from offsider.inspector import BOUNDS_MS, PERIODS, Deploys, JobMetrics
from offsider.inspector.job_metrics import PastMinutes
from offsider.storage import run_counts
from tests.runs import counts

NOW = datetime(2026, 11, 20, 9, 25, 30, tzinfo=UTC).timestamp()
MINUTE = 60.0


class Stopped(Clock):
    def now(self) -> float:
        return NOW


@pytest.fixture(autouse=True)
def stopped(config):
    config.clock = Stopped()


def ran(config, name: str, processed: int, failed: int, ms: int, *, ago: float = 0.0, took: float = 0.0) -> None:
    job = counts(name, processed, failed, ms, [took] * (processed - failed))
    run_counts.add(Installation.of(config).redis, [job], NOW - ago, wire_version=8)


def test_classes_are_summed_over_the_period_those_with_the_most_time_first(config):
    ran(config, "Quick", 100, 0, 50)
    ran(config, "Slow", 3, 1, 4_000, ago=5 * MINUTE)
    ran(config, "Slow", 1, 0, 2_000)
    ran(config, "Before", 1, 0, 9_000, ago=61 * MINUTE)
    top = JobMetrics.top("1h", config=config)
    assert [job.name for job in top.jobs] == ["Slow", "Quick"]
    slow = top.jobs[0]
    assert (slow.processed, slow.failed, slow.success, slow.total_seconds, slow.average_ms) == (4, 1, 3, 6.0, 2_000.0)
    minute = NOW - NOW % 60
    assert {at: counts.milliseconds for at, counts in slow.counts.items()} == {minute: 2_000, minute - 300: 4_000}
    assert (top.ends_at, top.ends_at - top.starts_at, top.step_seconds) == (minute + 60, 3600, 60)
    assert (len(top.processed), top.processed[minute], top.failed[minute - 300]) == (60, 101, 1)


def test_minutes_that_are_over_are_kept_for_a_minute(config, raw_redis, monkeypatch):
    past, now = PastMinutes(), [0.0]
    monkeypatch.setattr("offsider.inspector.job_metrics.time.monotonic", lambda: now[0])
    ran(config, "A", 1, 0, 10)
    ran(config, "A", 1, 0, 10, ago=30 * MINUTE)
    runs = [sum(job.processed for job in JobMetrics.top("1h", config=config, past=past).jobs)]
    raw_redis.config_resetstat()
    ran(config, "A", 1, 0, 10)
    ran(config, "A", 1, 0, 10, ago=30 * MINUTE)
    for now[0] in (1.0, 100.0):
        runs.append(sum(job.processed for job in JobMetrics.top("1h", config=config, past=past).jobs))
        if now[0] == 1.0:
            assert raw_redis.info("commandstats")["cmdstat_hgetall"]["calls"] < 10
    assert runs == [2, 3, 4]


def test_long_periods_use_ten_minute_buckets_unless_sidekiq_7_is_present(config):
    ran(config, "A", 1, 0, 10)
    assert JobMetrics.top("2h", config=config).step_seconds == 60
    assert JobMetrics.top("4h", config=config).step_seconds == 600
    run_counts.add(Installation.of(config).redis, [counts("Ruby")], NOW, wire_version=7)
    Installation.of(config).redis.call(
        "UNLINK", Installation.of(config).redis.keys.job_ten_minutes(datetime.fromtimestamp(NOW, UTC))
    )
    top = JobMetrics.top("4h", config=config)
    assert (top.step_seconds, {job.name for job in top.jobs}) == (60, {"A", "Ruby"})


@pytest.mark.parametrize("period", PERIODS)
def test_every_period_has_its_length_and_includes_recent_runs(config, period):
    ran(config, "A", 1, 0, 10)
    top = JobMetrics.top(period, config=config)
    assert top.ends_at - top.starts_at == PERIODS[period] * 60
    assert len(top.processed) == (top.ends_at - top.starts_at) / top.step_seconds
    assert [job.processed for job in top.jobs] == [1]


def test_names_are_searched_for_text_not_patterns(config):
    ran(config, "Mail.Send", 1, 0, 1)
    ran(config, "MailXSend", 1, 0, 1)
    assert [job.name for job in JobMetrics.top("1h", name_contains="mail.s", config=config).jobs] == ["Mail.Send"]
    assert sum(JobMetrics.top("1h", name_contains="mail.s", config=config).processed.values()) == 1


def test_a_class_that_only_failed_has_no_average(config):
    ran(config, "Fails", 2, 2, 0)
    (job,) = JobMetrics.top("1h", config=config).jobs
    assert (job.success, job.average_ms) == (0, 0.0)


def test_one_class_has_a_histogram_minute_by_minute(config):
    ran(config, "A", 3, 1, 100, took=0.1, ago=2 * MINUTE)
    ran(config, "A", 1, 0, 10)
    ran(config, "B", 9, 0, 10)
    detail = JobMetrics.of("A", "1h", config=config)
    assert (detail.totals.processed, detail.totals.failed, detail.totals.ms) == (4, 1, 110)
    assert len(detail.histogram) == len(BOUNDS_MS) + 1
    assert (detail.histogram[0], detail.histogram[4], sum(detail.histogram)) == (1, 2, 3)
    minute = NOW - NOW % 60
    assert {at: sum(buckets) for at, buckets in detail.buckets.items()} == {minute: 1, minute - 120: 2}
    assert detail.ends_at - detail.starts_at == 3600


def test_a_long_period_of_one_class_has_counts_by_ten_minutes(config):
    ran(config, "A", 3, 1, 100)
    ran(config, "Another", 9, 9, 100)
    detail = JobMetrics.of("A", "24h", config=config)
    assert (detail.totals.processed, detail.totals.failed, detail.step_seconds) == (3, 1, 600)
    assert (sum(detail.histogram), detail.buckets, detail.runs) == (0, {}, ())
    with pytest.raises(ConfigurationError, match="choose one of 1h, 2h, 4h, 8h"):
        JobMetrics.of("A", "1d", config=config)


def test_deploys_within_the_period_are_listed(config):
    Deploys(config).mark("abc Release", at=NOW - 600)
    Deploys(config).mark("long ago", at=NOW - 86_400)
    assert [mark.label for mark in JobMetrics.top("1h", config=config).marks] == ["abc Release"]
    assert [mark.at for mark in JobMetrics.of("A", "1h", config=config).marks] == [NOW - 600 - (NOW - 600) % 60]
