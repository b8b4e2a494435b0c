"""What is read once for all visitors."""

from __future__ import annotations

from offsider.web.counters import counters, last_hour, server


def test_visitors_within_a_second_share_one_look(config, raw_redis):
    first = counters(config)
    raw_redis.set("stat:processed", 5)
    assert counters(config) is first
    assert last_hour(config) is last_hour(config)
    assert server(config) is server(config)
