"""Golden forms of the execution metrics: what Sidekiq 8.1.7 and 7.3.10 wrote, we write key by key and read.

The dumps come from real Ruby processes (one EchoJob and one FailJob, UTC); 6.4.1 has no metrics.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.core.clock import Clock
from offsider.core.series import SIDEKIQ_SECONDS
from offsider.inspector import Deploys, JobMetrics
from offsider.storage import run_counts
from tests.runs import counts
from tests.snapshot import snapshot

AT = datetime(2026, 11, 20, 23, 21, 27, tzinfo=UTC)
HOURS_8, DAYS_3, DAYS_90 = 8 * 3600, 3 * 86400, 90 * 86400
ECHO = counts("EchoJob", ms=3, seconds=[0.003])
FAIL = counts("FailJob", failed=1, ms=0)
HISTOGRAM = [1] + [0] * 25
ONE_IN_BUCKET_0 = b"\x00\x01"
COUNTED = {b"EchoJob|ms": b"3", b"EchoJob|p": b"1", b"FailJob|f": b"1", b"FailJob|p": b"1"}

#: Key -> (value, seconds it is kept), by version of Sidekiq.
DUMPS = {
    8: {
        "j|261120|23:2": (COUNTED, DAYS_3),
        "j|261120|23:21": (COUNTED, HOURS_8),
        "h|EchoJob-20-23:21": (ONE_IN_BUCKET_0, HOURS_8),
    },
    7: {
        "j|20261120|23:21": (COUNTED, HOURS_8),
        "EchoJob-20-23:21": (ONE_IN_BUCKET_0, HOURS_8),
    },
}
MARKS = {"20261120-marks": {b"2026-11-20T23:27:00Z": b"v42"}}


class Stopped(Clock):
    def now(self) -> float:
        return AT.timestamp() + 600


@pytest.fixture
def config(redis_url) -> Config:
    config = Config()
    config.redis.url = redis_url
    config.clock = Stopped()
    return config


def store(raw_redis, dump) -> None:
    """Put the keys there as Ruby has left them."""
    for key, (value, kept_seconds) in dump.items():
        if isinstance(value, bytes):
            raw_redis.set(key, value)
        else:
            raw_redis.hset(key, mapping=value)
        raw_redis.expire(key, kept_seconds)


def sidekiqs(raw_redis) -> dict[str, object]:
    return {key: value for key, value in snapshot(raw_redis).items() if not key.startswith("offsider:")}


def kept(raw_redis) -> dict[str, int]:
    return {key.decode(): raw_redis.ttl(key) for key in raw_redis.scan_iter()}


@pytest.mark.parametrize("version", [7, 8])
def test_runs_are_written_to_the_keys_of_this_version(config, raw_redis, version):
    run_counts.add(Installation.of(config).redis, [ECHO, FAIL], AT.timestamp(), wire_version=version)

    written = sidekiqs(raw_redis)
    for key, (value, kept_seconds) in DUMPS[version].items():
        assert written.pop(key) == value
        assert kept(raw_redis)[key] == pytest.approx(kept_seconds, abs=5)
    assert set(written) <= {"j|261120|23:2"}, "7.3 has no ten minutes; ours are for our own pages"


@pytest.mark.parametrize("version", [7, 8])
def test_runs_that_ruby_counted_are_read(config, raw_redis, version):
    store(raw_redis, DUMPS[version])

    top = JobMetrics.top("1h", config=config)
    echo = JobMetrics.of("EchoJob", "1h", config=config)

    assert [(job.name, job.processed, job.failed, job.ms) for job in top.jobs] == [
        ("EchoJob", 1, 0, 3.0),
        ("FailJob", 1, 1, 0.0),
    ]
    minute = AT.replace(second=0).timestamp()
    assert top.jobs[0].counts == {minute: (1, 0, 3)}
    assert (echo.totals.processed, echo.histogram) == (1, HISTOGRAM)
    assert echo.buckets == {minute: HISTOGRAM}


def test_ten_minutes_that_ruby_counted_are_read(config, raw_redis):
    store(raw_redis, {key: kept for key, kept in DUMPS[8].items() if key == "j|261120|23:2"})

    top = JobMetrics.top("72h", config=config)

    assert [(job.name, job.processed) for job in top.jobs] == [("EchoJob", 1), ("FailJob", 1)]
    assert top.jobs[0].counts == {AT.replace(minute=20, second=0).timestamp(): (1, 0, 3)}


def test_a_class_that_both_versions_ran_is_one(config, raw_redis):
    store(raw_redis, DUMPS[7])
    store(raw_redis, DUMPS[8])

    assert [(job.name, job.processed) for job in JobMetrics.top("1h", config=config).jobs] == [
        ("EchoJob", 2),
        ("FailJob", 2),
    ]
    assert JobMetrics.of("EchoJob", "1h", config=config).histogram[0] == 2


def test_histograms_have_26_counters_of_16_bits_that_stay_at_their_highest(config, raw_redis):
    every = counts("EchoJob", 26, seconds=[*SIDEKIQ_SECONDS, 400.0])
    many = counts("EchoJob", 70_000, seconds=[0.0] * 70_000)
    for counted in (every, many):
        run_counts.add(Installation.of(config).redis, [counted], AT.timestamp(), wire_version=8)

    assert raw_redis.get("h|EchoJob-20-23:21") == b"\xff\xff" + b"\x00\x01" * 25


def test_a_minute_before_ten_in_the_morning_is_written_without_zeros(config, raw_redis):
    at = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
    run_counts.add(Installation.of(config).redis, [ECHO], at.timestamp(), wire_version=8)

    assert set(sidekiqs(raw_redis)) == {"j|260304|5:06", "j|260304|5:0", "h|EchoJob-4-5:6"}


def test_a_deploy_is_marked_where_ruby_marks_it_and_read(config, raw_redis):
    at = datetime(2026, 11, 20, 23, 27, 13, tzinfo=UTC)
    assert Deploys(config).mark("v42", at.timestamp())

    assert {key: value for key, value in snapshot(raw_redis).items() if key.endswith("-marks")} == MARKS
    assert kept(raw_redis)["20261120-marks"] == pytest.approx(DAYS_90, abs=5)
    [mark] = JobMetrics.top("1h", config=config).marks
    assert (mark.at, mark.label) == (at.replace(second=0).timestamp(), "v42")
