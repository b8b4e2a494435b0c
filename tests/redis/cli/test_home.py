"""The tab Home."""

from __future__ import annotations

import pytest

from offsider.cli.top.home import Home
from offsider.cli.top.sheet import View
from offsider.testing import FakeClock
from offsider.wiring.config import Config


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    config.clock = FakeClock()
    return config


def test_it_shows_the_counters_and_the_server(config, raw_redis):
    raw_redis.mset({"stat:processed": 12_345, "stat:failed": 6})
    facts = {row.cells[0]: row.cells[1] for row in Home(config).read(View()).rows}
    assert (facts["Processed"], facts["Failed"]) == ("12,345", "6")
    assert facts["Server"].split()[0] in {"redis", "valkey"}
    assert facts["Busy"] == "0 jobs of 0 workers"


def test_the_sparkline_has_a_sample_for_each_heartbeat(config, raw_redis):
    home = Home(config)
    assert home.read(View()).samples == ()
    config.clock.advance(5)
    assert home.read(View()).samples == ()  # the counters have not moved yet
    config.clock.advance(5)
    raw_redis.set("stat:processed", 100)
    sheet = home.read(View())
    assert sheet.samples == (10.0,)
    assert sheet.rows[0].cells[1] == "100  10.0 / s"


def test_when_nothing_is_processed_the_rate_falls_to_nothing(config, raw_redis):
    home = Home(config)
    home.read(View())
    config.clock.advance(21)
    assert home.read(View()).samples == (0.0,)


def test_counters_that_were_reset_are_no_negative_rate(config, raw_redis):
    raw_redis.set("stat:processed", 100)
    home = Home(config)
    home.read(View())
    config.clock.advance(10)
    raw_redis.set("stat:processed", 0)
    assert home.read(View()).samples == (0.0,)
