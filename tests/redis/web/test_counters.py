"""What is read once for all visitors."""

from __future__ import annotations

import threading

from offsider.web.counters import Glance, counters, forget, last_hour, server
from tests.redis.web.stored import WHEN, failed


def test_visitors_within_a_second_share_one_look(config, raw_redis):
    first = counters(config)
    raw_redis.set("stat:processed", 5)
    assert counters(config) is first
    assert last_hour(config) is last_hour(config)
    assert server(config) is server(config)


def test_while_a_look_is_under_way_no_other_is_begun():
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


def test_whoever_has_changed_something_sees_the_counters_of_now(ask, config, raw_redis):
    forget(config)  # nothing is known yet, which is fine
    raw_redis.zadd("dead", {failed(1): WHEN})
    assert b"<b>1</b> <span>Dead</span>" in flat(ask("/dead").body)
    assert ask("/dead/all/delete", method="POST").status == 303
    assert b"<b>0</b> <span>Dead</span>" in flat(ask("/dead").body)


def flat(page):
    return b" ".join(page.split())
