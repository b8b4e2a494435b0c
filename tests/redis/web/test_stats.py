"""The counters for programs."""

from __future__ import annotations

import json
import re


def test_stats_have_the_format_of_sidekiq(ask, raw_redis):
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
    assert isinstance(data["sidekiq"]["default_latency"], float)
    info = raw_redis.info()
    is_valkey = "valkey_version" in info
    assert list(data["redis"]) == [
        "redis_version", "uptime_in_days", "connected_clients", "used_memory_human", "used_memory_peak_human",
        "store_name", "store_version",
    ]  # fmt: skip
    assert data["redis"]["redis_version"] == info["redis_version"]
    assert data["redis"]["uptime_in_days"] == "0"  # texts, as the server writes them
    assert int(data["redis"]["connected_clients"]) > 0
    assert re.fullmatch(r"[0-9.]+[KMG]", data["redis"]["used_memory_human"])
    assert data["redis"]["store_name"] == ("Valkey" if is_valkey else "Redis")
    assert data["redis"]["store_version"] == info["valkey_version" if is_valkey else "redis_version"]
    assert re.fullmatch("[0-9]{2}:[0-9]{2}:[0-9]{2} UTC", data["server_utc_time"])
    assert json.loads(ask("/stats/queues").body) == {"low": 1}
