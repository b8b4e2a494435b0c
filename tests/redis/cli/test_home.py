"""The tab Home."""

from __future__ import annotations

import pytest

from offsider.cli.top.tabs import Home, View
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.storage.activity import Activity, report
from offsider.testing import FakeClock


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    config.clock = FakeClock()
    return config


def test_it_shows_the_counters_and_the_server(config, raw_redis):
    raw_redis.mset({"stat:processed": 12_345, "stat:failed": 6})
    facts = {row.cells[0]: row.cells[1] for row in Home(Installation.of(config)).read(View()).rows}
    assert (facts["Processed"], facts["Failed"]) == ("12,345  0.0 / s", "6")
    assert facts["Server"].split()[0] in {"redis", "valkey"}
    assert facts["Busy"] == "0 jobs of 0 workers"


def test_the_rate_is_the_one_that_the_processes_report(config, raw_redis):
    home = Home(Installation.of(config))
    assert home.read(View()).samples == (0.0,)
    raw_redis.sadd("processes", "web-1:7:0123456789ab")
    raw_redis.hset("web-1:7:0123456789ab", mapping={"info": "{}", "busy": 1})
    report(Installation.of(config).make_redis(1), "web-1:7:0123456789ab", Activity(429.84, 2.0), busy=1)
    sheet = home.read(View())
    assert sheet.samples == (0.0, 429.84)
    assert sheet.rows[0].cells[1] == "0  429.8 / s"
