"""Rows that compare pages see the whole of each page, however busy the machine is."""

from __future__ import annotations

import time

from bench.scoreboard.web_pages import no_time_budget
from offsider.config.config import Config
from offsider.inspector import search_everywhere
from offsider.inspector.scan import steps


def test_without_a_time_budget_a_scan_continues_after_its_time():
    with no_time_budget():
        scan = steps(1)
        next(scan)
        time.sleep(0.005)
        assert next(scan) > 0
    assert len([time.sleep(0.005) for _ in steps(1)]) == 1


def test_without_a_time_budget_a_search_covers_everything(raw_redis, redis_url):
    for number in range(400):
        raw_redis.lpush(f"queue:q{number}", '{"class":"C","jid":"j","args":[]}')
        raw_redis.sadd("queues", f"q{number}")
    config = Config()
    config.redis.url = redis_url
    assert search_everywhere("nowhere", budget_ms=1, config=config).cursor
    with no_time_budget():
        assert not search_everywhere("nowhere", budget_ms=1, config=config).cursor
