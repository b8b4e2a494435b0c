"""The tab of limiters, the set, metrics and the doctor check."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from offsider.config.installation import Installation
from offsider.ext.limiters import Limiter, LimiterSet, limiter_set, store, web
from offsider.fleet.metrics import read_families
from offsider.inspector.finding import Severity
from offsider.prometheus.text import text_of
from offsider.web.app import WebApp
from offsider.web.page_request import WebOptions
from offsider.web.request import Request
from tests.hostile import STRINGS

HEADERS = {"host": "localhost", "sec-fetch-site": "same-origin"}


@pytest.fixture
def ask(config):
    app = WebApp(WebOptions({"main": Installation.of(config)}))

    def ask(path, method="GET", query="", accept=""):
        accept = accept or ("text/html" if method == "GET" else "application/json")
        return app.respond(Request(method, path, query=query, headers={**HEADERS, "accept": accept}, body=b""))

    return ask


@pytest.fixture
def listed(ask):
    """The names on a page of the list, and its pager or the progress of its scan."""

    def listed(query=""):
        data = json.loads(ask("/limiters", query=query, accept="application/json").body)
        (table,) = data["blocks"]
        return [row[0]["text"] for row in table["rows"]], data["pager"] or data["search"]

    return listed


@pytest.fixture
def many(config, raw_redis):
    """Stores limiters as their first use does."""
    keys = Installation.of(config).redis.keys
    names = [f"customer-{number:03}" for number in range(130)]
    for at, name in enumerate(names):
        made = store.Definition("bucket", name, 5, 60.0, ttl_seconds=86_400)
        for command in store.register(keys, made, 4e9 + at)[:3]:
            raw_redis.execute_command(*command)
    return names


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
    return [(finding.severity, finding.what) for finding in limiter_set.check_limiters(Installation.of(config))]


def test_limiters_are_listed_with_their_use(ask, limiters):
    page = ask("/limiters").body.decode()
    for text in ('href="/limiters/bucket/stripe"', "30 / minute", 'href="/limiters/points/shop"', "1,000, 50/s"):
        assert text in page


def test_all_limiters_are_reached_through_pages_the_most_recently_used_first(ask, listed, many):
    seen, query = list[str](), "page=1"
    assert "1\N{EN DASH}25 of 130" in ask("/limiters").body.decode()
    while query:
        found, pager = listed(query)
        seen += found
        query = pager["next"].partition("?")[2]
    assert seen == many[::-1]
    assert "This page is empty." in ask("/limiters", query="page=9").body.decode()


def test_limiters_are_found_by_a_part_of_their_name_or_kind(ask, listed, many, limiters):
    assert listed("name=customer-01")[0] == many[10:20]
    assert listed("name=points")[0] == ["shop"]
    names, search = listed("name=concurrent:erp")
    assert (names, search["found"], search["scanned"], search["total"], search["more"]) == (["erp"], 1, 133, 133, "")
    assert "Found: 1. Scanned everything." in ask("/limiters", query="name=erp").body.decode()
    assert "No limiter has this name or kind." in ask("/limiters", query="name=*").body.decode()


def test_hostile_filters_of_limiters_are_answered(ask, limiters):
    for text in STRINGS:
        assert ask("/limiters", query=urlencode({"name": text}, errors="surrogatepass")).status in (200, 400)
    for query in ("page=0", f"page={'9' * 400}", "name=a&seen=x", f"name={'x' * 101}", f"name=a&cursor={'9' * 101}"):
        assert ask("/limiters", query=query).status == 400


def test_a_search_for_a_limiter_continues_in_steps(listed, many, monkeypatch):
    monkeypatch.setattr(web, "PAGE_BUDGET_MS", 0)
    found, search = listed("name=customer-00")
    while search["more"]:
        part, search = listed(search["more"].partition("?")[2])
        found += part
    assert set(found) == set(many[:10])
    assert search["scanned"] == 130


def test_a_limiter_has_a_page_with_its_statistics(ask, limiters):
    page = ask("/limiters/concurrent/erp").body.decode()
    assert "Reclaimed slots" in page
    assert "Lock timeout" in page
    assert "Reclaimed slots" not in ask("/limiters/bucket/stripe").body.decode()
    assert ask("/limiters/bucket/unknown").status == 404


def test_a_limiter_is_reset_and_deleted(ask, config, limiters):
    assert json.loads(ask("/limiters/bucket/stripe/reset", "POST").body)["done"] == "Reset: bucket stripe"
    assert LimiterSet(config).find("bucket", "stripe").allowed == 0
    assert json.loads(ask("/limiters/bucket/stripe/delete", "POST").body)["done"] == "Deleted: bucket stripe"
    assert LimiterSet(config).find("bucket", "stripe") is None
    assert [state.name for state in LimiterSet(config)] == ["shop", "erp"]
    assert not LimiterSet(config).delete("bucket", "stripe")


def test_data_of_another_revision_is_not_listed(config, limiters, raw_redis):
    raw_redis.hset("offsider:limiter:{bucket:stripe}", "definition", '{"kind": "bucket", "more": 1}')
    raw_redis.hdel("offsider:limiter:{concurrent:erp}", "definition")
    assert [state.name for state in LimiterSet(config)] == ["shop"]


def test_the_set_of_a_program_without_the_extension_is_that_of_its_server(make_config, limiters):
    other = make_config()
    assert len(LimiterSet(other)) == len(list(LimiterSet(other))) == 3


def test_metrics_have_use_limit_and_counters(config, limiters, monkeypatch):
    def lines():
        return text_of(read_families(Installation.of(config))).splitlines()

    assert "offsider_limiters 3.0" in lines()
    assert 'offsider_limiter_limit{kind="bucket",name="stripe"} 30.0' in lines()
    assert 'offsider_limiter_used{kind="points",name="shop"} 150.0' in lines()
    assert 'offsider_limiter_allowed_total{kind="concurrent",name="erp"} 1.0' in lines()
    monkeypatch.setattr(limiter_set, "MAX_MEASURED", 2)
    assert not [line for line in lines() if "stripe" in line]
    assert "offsider_limiters 3.0" in lines()


def test_the_doctor_reports_growth(config, limiters, monkeypatch):
    assert found(config) == []
    monkeypatch.setattr(limiter_set, "MANY", 2)
    assert found(config) == [(Severity.WARN, "3 limiters are stored")]


def test_the_doctor_reports_reclaimed_slots(config, limiters, time):
    erp = limiters[1]
    erp.within_limit().__enter__()
    time.advance(31)
    with erp.within_limit():
        pass
    assert found(config) == [(Severity.WARN, "slots of concurrent erp were reclaimed 1 time")]
