"""One address, two responses: numbers for a scraper, a page for people."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.web.app import WebApp
from offsider.web.options import WebOptions
from offsider.web.pages.scrape import wants_text
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
    assert b"<html" in ask("/metrics", accept=BROWSER).body
    for answer in (ask("/metrics", accept="application/json"), ask("/metrics", "format=json", accept="*/*")):
        assert "jobs" in json.loads(answer.body)


def test_scrapes_read_redis_once_a_second(ask, raw_redis):
    first = ask("/metrics", accept=PROMETHEUS).body
    raw_redis.lpush("queue:default", b"{}")
    raw_redis.sadd("queues", "default")
    assert ask("/metrics", accept=PROMETHEUS).body == first


def test_an_unreachable_server_fails_the_scrape(tmp_path):
    config = Config()
    config.redis.url = f"unix://{tmp_path}/none.sock"
    app = WebApp(WebOptions({"main": Installation.of(config)}))
    answer = app.respond(Request("GET", "/metrics", headers={"host": "localhost", "accept": PROMETHEUS}))
    assert answer.status == 503


def test_a_scrape_needs_authentication_and_permission(config):
    app = WebApp(WebOptions({"main": Installation.of(config)}, authenticate=lambda request: None))
    answer = app.respond(Request("GET", "/metrics", headers={"host": "localhost", "accept": PROMETHEUS}))
    assert answer.status == 403
    asked = []
    app = WebApp(
        WebOptions({"main": Installation.of(config)}, authorize=lambda request, action: asked.append(action) or False)
    )
    answer = app.respond(Request("GET", "/metrics", headers={"host": "localhost", "accept": PROMETHEUS}))
    assert (answer.status, asked[0]) == (403, "metrics.scrape")


def test_each_server_has_its_own_metrics(config, raw_redis, tag):
    other = Config()
    other.redis.url = config.redis.url
    other.redis.key_prefix = f"{tag}other:"
    raw_redis.zadd("other:dead", {"gone": 1})
    app = WebApp(WebOptions({"main": Installation.of(config), "other": Installation.of(other)}))
    for path, dead in (("/metrics", 0), ("/@other/metrics", 1)):
        answer = app.respond(Request("GET", path, headers={"host": "localhost", "accept": PROMETHEUS}))
        assert f"\nsidekiq_dead_jobs {dead}.0\n".encode() in answer.body
