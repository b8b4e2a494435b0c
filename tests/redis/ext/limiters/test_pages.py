"""The tab of limiters, the set, metrics and the doctor check."""

from __future__ import annotations

import json

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.ext.limiters import Limiter, Limiters, LimiterSet, doctor, web
from offsider.inspector.doctor import Severity
from offsider.prometheus.fleet import read_families
from offsider.prometheus.text import text_of
from offsider.web.app import WebApp
from offsider.web.options import WebOptions
from offsider.web.request import Request

HEADERS = {"host": "localhost", "sec-fetch-site": "same-origin"}


@pytest.fixture
def ask(config):
    app = WebApp(WebOptions({"main": Installation.of(config)}))

    def ask(path, method="GET"):
        accept = "text/html" if method == "GET" else "application/json"
        return app.respond(Request(method, path, query="", headers={**HEADERS, "accept": accept}, body=b""))

    return ask


@pytest.fixture
def limiters(config, time):
    made = [
        Limiter.bucket("stripe", 30, "minute", config=config),
        Limiter.concurrent("erp", 4, config=config),
        Limiter.points("shop", 1000, 50, config=config),
    ]
    for limiter, amounts in zip(made, ({}, {}, {"estimate": 200}), strict=True):
        with limiter.within_limit(**amounts):
            pass
        time.advance(1)
    return made


def found(config):
    return [(finding.severity, finding.what) for finding in doctor.check_limiters(Installation.of(config))]


def test_without_limiters_the_page_has_a_note(ask):
    assert "No limiters were used." in ask("/limiters").body.decode()


def test_limiters_are_listed_with_their_use(ask, limiters):
    page = ask("/limiters").body.decode()
    for text in ('href="/limiters/bucket/stripe"', "30 / minute", 'href="/limiters/points/shop"', "1,000, 50/s"):
        assert text in page


def test_only_the_most_recently_used_limiters_are_listed(ask, limiters, monkeypatch):
    monkeypatch.setattr(web, "_MOST", 2)
    page = ask("/limiters").body.decode()
    assert "Showing 2 of 3 limiters" in page
    assert "stripe" not in page


def test_a_limiter_has_a_page_with_its_statistics(ask, limiters):
    page = ask("/limiters/concurrent/erp").body.decode()
    assert "Reclaimed slots" in page
    assert "Lock timeout" in page
    assert "Reclaimed slots" not in ask("/limiters/bucket/stripe").body.decode()
    assert ask("/limiters/bucket/unknown").status == 404


def test_a_limiter_is_reset_and_deleted(ask, config, limiters):
    assert json.loads(ask("/limiters/bucket/stripe/reset", "POST").body)["done"] == "Reset: stripe"
    assert LimiterSet(config).find("bucket", "stripe").allowed == 0
    assert json.loads(ask("/limiters/bucket/stripe/delete", "POST").body)["done"] == "Deleted: stripe"
    assert LimiterSet(config).find("bucket", "stripe") is None
    assert [state.name for state in LimiterSet(config)] == ["shop", "erp"]
    assert not LimiterSet(config).delete("bucket", "stripe")


def test_data_of_another_revision_is_not_listed(config, limiters, raw_redis):
    raw_redis.hset("offsider:limiter:{bucket:stripe}", "definition", '{"kind": "bucket", "more": 1}')
    raw_redis.hdel("offsider:limiter:{concurrent:erp}", "definition")
    assert [state.name for state in LimiterSet(config)] == ["shop"]


def test_the_set_of_a_program_without_the_extension_is_that_of_its_server(config, limiters):
    other = Config()
    other.redis.url = config.redis.url
    assert len(LimiterSet(other)) == len(list(LimiterSet(other))) == 3
    Installation.of(other).close()


def test_metrics_have_use_limit_and_counters(config, limiters, monkeypatch):
    def lines():
        return text_of(read_families(Installation.of(config))).splitlines()

    assert "offsider_limiters 3.0" in lines()
    assert 'offsider_limiter_limit{kind="bucket",name="stripe"} 30.0' in lines()
    assert 'offsider_limiter_used{kind="points",name="shop"} 150.0' in lines()
    assert 'offsider_limiter_allowed_total{kind="concurrent",name="erp"} 1.0' in lines()
    monkeypatch.setattr(doctor, "MOST_MEASURED", 2)
    assert not [line for line in lines() if "stripe" in line]
    assert "offsider_limiters 3.0" in lines()


def test_the_doctor_counts_limiters_and_reports_growth(config, limiters, monkeypatch):
    assert found(config) == [(Severity.OK, "3 limiters")]
    monkeypatch.setattr(doctor, "MANY", 2)
    assert found(config) == [(Severity.WARN, "3 limiters are stored")]


def test_the_doctor_reports_reclaimed_slots(config, limiters, time):
    erp = limiters[1]
    erp.within_limit().__enter__()
    time.advance(31)
    with erp.within_limit():
        pass
    assert found(config) == [(Severity.WARN, "slots of concurrent erp were reclaimed 1 time")]


def test_the_extension_is_installed_once_with_its_tab():
    config = Config()
    config.use(Limiters())
    assert [tab.path for tab in config.web_tabs] == ["/limiters"]
