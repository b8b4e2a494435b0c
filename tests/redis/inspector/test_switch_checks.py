"""Switches that were forgotten, or that a server does not have, are found."""

from __future__ import annotations

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.inspector import Switches
from offsider.inspector.doctor.examination import examine
from offsider.inspector.doctor.finding import Severity
from offsider.storage import switches
from tests.redis.inspector.examined import examined, severity


@pytest.fixture
def config(redis_url) -> Config:
    config = Config()
    config.redis.url = redis_url
    return config


def aged(raw_redis, name: str, days: float) -> None:
    """Backdate a switch by this time."""
    stored = raw_redis.hget("offsider:switches", name)
    since = raw_redis.time()[0] - days * 86_400
    head, _, rest = stored.partition(b'"since":')
    raw_redis.hset("offsider:switches", name, head + b'"since":%d,' % since + rest.partition(b",")[2])


def test_without_a_switch_there_is_no_finding(redis_url, raw_redis):
    found = examined(redis_url)
    assert {severity(found, check) for check in ("switches", "old switches", "partial switches")} == {"none"}


def test_a_switch_of_today_and_one_that_ends_by_itself_are_well(redis_url, raw_redis, config):
    Switches(config).drop("HardJob")
    Switches(config).defer("app.Export", lasting=30 * 86_400)
    aged(raw_redis, "app.Export", 10)
    finding = examined(redis_url)["switches"]
    assert (finding.severity, finding.what) == (
        Severity.OK,
        "jobs of these classes are dropped or deferred: HardJob, app.Export",
    )


def test_a_switch_of_last_week_was_perhaps_forgotten(redis_url, raw_redis, config):
    Switches(config).drop("HardJob")
    aged(raw_redis, "HardJob", 7.5)
    finding = examined(redis_url)["old switches"]
    assert finding.severity is Severity.WARN
    assert finding.what == "kill switches are set for days: HardJob (for 7 days)"
    assert "offsider switches clear HardJob" in finding.fix


def test_a_switch_that_a_server_does_not_have_is_found(redis_url, raw_redis, config, tag):
    config.add_server("twin", url=redis_url, key_prefix=f"{tag}twin:")
    Switches(config).drop("HardJob")
    switches.clear(Installation.of(config, "twin").redis, "HardJob")
    (finding,) = [one for one in examine(config) if one.check == "partial switches"]
    assert finding.what == "not every server has the kill switch of HardJob (not on twin)"


def test_a_server_that_has_another_switch_is_found(redis_url, raw_redis, config, tag):
    config.add_server("twin", url=redis_url, key_prefix=f"{tag}twin:")
    Switches(config).drop("HardJob")
    switches.put(Installation.of(config, "twin").redis, switches.Switch("HardJob", "defer", delay_seconds=60.0))
    (finding,) = [one for one in examine(config) if one.check == "partial switches"]
    assert finding.what == "not every server has the kill switch of HardJob (different on twin)"
