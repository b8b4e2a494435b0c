"""The counters for programs."""

from __future__ import annotations

import json


def test_they_have_the_form_of_sidekiqs(ask, raw_redis):
    raw_redis.set("stat:processed", 7)
    raw_redis.sadd("queues", "low")
    raw_redis.lpush("queue:low", b"{}")
    answer = ask("/stats")
    assert dict(answer.headers)["content-type"] == "application/json"
    data = json.loads(answer.body)
    assert list(data) == ["sidekiq", "redis", "server_utc_time"]
    assert list(data["sidekiq"]) == [
        "processed", "failed", "busy", "processes", "enqueued", "scheduled", "retries", "dead", "default_latency"
    ]  # fmt: skip
    assert data["sidekiq"]["processed"] == 7
    assert data["redis"]["store_name"] in {"redis", "valkey"}
    assert data["server_utc_time"].endswith(" UTC")
    assert json.loads(ask("/stats/queues").body) == {"low": 1}
