"""What is read once for all visitors."""

from __future__ import annotations

import threading

from offsider.config.installation import Installation
from offsider.screens.counters import Glance, counters, forget, last_hour, server as info
from tests.redis.web.stored import WHEN, failed


def test_requests_within_a_second_share_one_read(config, raw_redis):
    first = counters(config)
    raw_redis.set("stat:processed", 5)
    assert counters(config) is first
    assert last_hour(Installation.of(config)) is last_hour(Installation.of(config))
    assert info(config) is info(config)


def test_only_one_read_runs_at_a_time():
    go_on = threading.Event()
    looks = []

    def read():
        looks.append(1)
        go_on.wait(60)

    glance = Glance(read)
    assert glance.begin() is glance.begin()
    go_on.set()
    assert glance.begin().result(60) is None
    assert looks == [1]


def test_after_a_change_the_counters_are_current(ask, config, raw_redis):
    server = Installation.of(config)
    forget(server)  # nothing is known yet, which is fine
    raw_redis.zadd("dead", {failed(1): WHEN})
    assert counters(server).dead == 1
    assert ask("/jobs/delete", method="POST", body="where=dead&every=yes").status == 303
    assert counters(server).dead == 0
