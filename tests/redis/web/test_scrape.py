"""Numbers for programs: the metrics of a scraper, which have the address of a page for people, and the counters."""

from __future__ import annotations

import json
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.web.app import WebApp
from offsider.web.page_request import WebOptions
from offsider.web.pages.stats import wants_text
from offsider.web.request import Request

PROMETHEUS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    "accept,wanted",
    [
        (PROMETHEUS, True),
        ("text/plain", True),
        ("*/*", True),
        ("", True),
        (BROWSER, False),
        ("text/html, text/plain", False),
        ("application/json", False),
    ],
)
def test_a_client_that_accepts_no_page_format_is_a_scraper(accept, wanted):
    assert wants_text(accept) is wanted


def test_prometheus_gets_metrics(ask):
    answer = ask("/metrics", accept=PROMETHEUS)
    assert answer.status == 200
    assert dict(answer.headers)["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert any(
        family.name == "sidekiq_enqueued_jobs" for family in text_string_to_metric_families(answer.body.decode())
    )


def test_browsers_and_programs_get_the_page(ask):
    for query, accept, address in (
        ("", BROWSER, "/class"),
        ("", "application/json", "/class"),
        ("format=json", "*/*", "/class?format=json"),
    ):
        answer = ask("/metrics", query, accept=accept)
        assert (answer.status, dict(answer.headers)["location"]) == (302, address)


def test_a_scrape_needs_authentication_and_permission(ask_with):
    assert ask_with(authenticate=lambda request: None)("/metrics", accept=PROMETHEUS).status == 403
    asked = []
    ask = ask_with(authorize=lambda request, action: asked.append(action) or False)
    assert (ask("/metrics", accept=PROMETHEUS).status, asked[0]) == (403, "metrics.scrape")


def test_each_server_has_its_own_metrics(config, raw_redis, tag):
    other = Config()
    other.redis.url = config.redis.url
    other.redis.key_prefix = f"{tag}other:"
    raw_redis.zadd("other:dead", {"gone": 1})
    app = WebApp(WebOptions({"main": Installation.of(config), "other": Installation.of(other)}))
    for path, dead in (("/metrics", 0), ("/@other/metrics", 1)):
        answer = app.respond(Request("GET", path, headers={"host": "localhost", "accept": PROMETHEUS}))
        assert f"\nsidekiq_dead_jobs {dead}.0\n".encode() in answer.body


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
