"""The tab Metrics."""

from __future__ import annotations

from datetime import UTC, datetime

from offsider.cli.top.tabs import Metrics, View
from offsider.config.config import Config
from offsider.config.installation import Installation


def test_jobs_are_sorted_by_their_execution_time(redis_url, raw_redis):
    now = datetime.now(UTC)
    written = {"Quick|p": 900, "Quick|ms": 900, "Slow|p": 4, "Slow|f": 1, "Slow|ms": 6000}
    raw_redis.hset(f"j|{now:%y%m%d}|{now.hour}:{now.minute:02}", mapping=written)
    config = Config()
    config.redis.url = redis_url
    assert [row.cells for row in Metrics(Installation.of(config)).read(View()).rows] == [
        ("Slow", "4", "1", "6.00 s", "2,000 ms"),
        ("Quick", "900", "0", "0.90 s", "1 ms"),
    ]
