"""The tab of periodic jobs, on the real pages."""

from __future__ import annotations

import json

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.config.web_tab import WebLink
from offsider.ext.periodic import Periodic, PeriodicJobs
from offsider.ext.periodic.entry import make
from offsider.ext.periodic.store import HistoryLine, PeriodicStore
from offsider.ext.periodic.web import job_facts
from offsider.web.app import WebApp
from offsider.web.options import WebOptions
from offsider.web.request import Request
from tests.middleware import returning
from tests.redis.ext.periodic.live_processes import publish

HEADERS = {"host": "localhost", "accept": "text/html", "sec-fetch-site": "same-origin"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    periodic = Periodic()
    periodic.register("*/5 * * * *", "Clean", name="clean", queue="low", args=["secret"], description="all <b>")
    config.use(periodic)
    yield config
    Installation.of(config).close()


@pytest.fixture
def ask(config):
    app = WebApp(WebOptions({"main": Installation.of(config)}))

    def get(path: str) -> str:
        answer = app.respond(Request("GET", path, headers=HEADERS))
        assert answer.status == 200, answer.body
        return answer.body.decode()

    return get


@pytest.fixture
def act(config):
    app = WebApp(WebOptions({"main": Installation.of(config)}))

    def post(path: str) -> str:
        answer = app.respond(Request("POST", path, headers=HEADERS | {"accept": "application/json"}))
        return answer.body.decode()

    return post


def test_the_table_and_the_page_of_a_job_show_registered_data(ask, config):
    PeriodicStore(Installation.of(config).redis).note(
        "clean", HistoryLine("skipped", 1e9, 1e9, count=3, by="host:1:ab")
    )
    PeriodicStore(Installation.of(config).redis).note(
        "clean", HistoryLine("tick", 1e9, 1e9, jid="ab" * 12, by="host:1:ab")
    )
    table, page = ask("/periodic"), ask("/periodic/clean")
    for text in ("clean", "*/5 * * * *", "UTC", "Clean", "no worker", "Pause", "Run now"):
        assert text in table or text in page
    assert "Every fifth minute" in page
    assert "all &lt;b&gt;" in page
    assert "skipped: 3" in page
    assert f"/job/{'ab' * 12}" in page
    assert "2001-09-09 01:46:40+00:00" in page
    assert "secret" not in table + page


def test_an_empty_table_has_a_note(redis_url):
    config = Config()
    config.redis.url = redis_url
    config.use(Periodic())
    answer = WebApp(WebOptions({"main": Installation.of(config)})).respond(Request("GET", "/periodic", headers=HEADERS))
    assert "No periodic jobs are registered." in answer.body.decode()
    Installation.of(config).close()


def test_an_unknown_job_is_not_found(config):
    app = WebApp(WebOptions({"main": Installation.of(config)}))
    assert app.respond(Request("GET", "/periodic/nope", headers=HEADERS)).status == 404


def test_buttons_run_pause_resume_and_remove(act, ask, config, raw_redis):
    assert "Pushed: " in act("/periodic/clean/run")
    assert json.loads(raw_redis.lindex("queue:low", 0))["args"] == ["secret"]
    assert "Paused: clean" in act("/periodic/clean/pause")
    assert "paused" in ask("/periodic")
    assert "Resume" in ask("/periodic/clean")
    assert "Resumed: clean" in act("/periodic/clean/resume")
    PeriodicJobs(config).add("@daily", "A", name="added")
    assert "Delete" in ask("/periodic/added")
    assert "Deleted: added" in act("/periodic/added/remove")
    assert "Periodic job not found" in act("/periodic/added/remove")


def test_a_run_stopped_by_middleware_is_reported(act, config):
    config.client_middleware.add(returning())
    assert "canceled the push" in act("/periodic/clean/run")


def test_the_state_shows_differing_processes_and_missing_workers(ask, config):
    redis = Installation.of(config).redis
    publish(redis, make("clean", "@daily", "Clean"))
    assert "active" in ask("/periodic")
    publish(redis, make("clean", "@hourly", "Clean"), since=2.0)
    assert "differs" in ask("/periodic")
    assert "Live processes define this job differently" in ask("/periodic/clean")


def test_the_page_of_a_job_names_its_periodic_job():
    facts = job_facts({"periodic": {"name": "clean", "at": 60}})
    assert facts["Periodic job"] == WebLink("clean", "/periodic/clean")
    assert job_facts({}) == job_facts({"periodic": 5}) == {}
    assert job_facts({"periodic": {}})["Tick"].at == 0
