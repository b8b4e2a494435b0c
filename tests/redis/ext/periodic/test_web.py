"""The tab of periodic jobs, on the real pages."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from offsider.config.installation import Installation
from offsider.config.web_tab import WebLink
from offsider.ext.periodic import Periodic, PeriodicJobs
from offsider.ext.periodic.entry import make
from offsider.ext.periodic.service import PeriodicService
from offsider.ext.periodic.store import HistoryLine, PeriodicStore
from offsider.ext.periodic.web import job_facts
from tests.markup import Markup
from tests.redis.ext.periodic.live_processes import publish
from tests.redis.web.conftest import asker
from tests.waiting import wait_for


@pytest.fixture
def config(config):
    periodic = Periodic()
    periodic.register("*/5 * * * *", "Clean", name="clean", queue="low", args=["secret"], description="all <b>")
    config.use(periodic)
    return config


@pytest.fixture
def act(ask):
    return lambda path: ask(path, method="POST", accept="application/json").body.decode()


def test_the_table_and_the_page_of_a_job_show_registered_data(ask, config):
    PeriodicStore(Installation.of(config).redis).note(
        "clean", HistoryLine("skipped", 1e9, 1e9, count=3, by="host:1:ab")
    )
    PeriodicStore(Installation.of(config).redis).note(
        "clean", HistoryLine("tick", 1e9, 1e9, jid="ab" * 12, by="host:1:ab")
    )
    table, page = ask("/periodic").body.decode(), ask("/periodic/clean").body.decode()
    for text in ("clean", "*/5 * * * *", "UTC", "Clean", "no live process has it", "Pause", "Run now"):
        assert text in table or text in page
    assert "Every fifth minute" in page
    assert "all &lt;b&gt;" in page
    assert "skipped: 3" in page
    assert f"/job/{'ab' * 12}" in page
    assert "2001-09-09 01:46:40+00:00" in page
    assert "secret" not in table + page


def test_buttons_run_pause_resume_and_remove(act, ask, config, raw_redis):
    assert "Pushed: " in act("/periodic/clean/run")
    assert json.loads(raw_redis.lindex("queue:low", 0))["args"] == ["secret"]
    assert "Paused: clean" in act("/periodic/clean/pause")
    assert "paused" in ask("/periodic").body.decode()
    assert "Resume" in ask("/periodic/clean").body.decode()
    assert "Resumed: clean" in act("/periodic/clean/resume")
    PeriodicJobs(config).add("@daily", "A", name="added")
    assert "Delete" in ask("/periodic/added").body.decode()
    assert "Deleted: added" in act("/periodic/added/remove")
    assert "unknown periodic job added" in act("/periodic/added/remove")
    assert ask("/periodic/added").status == 404


def save(ask, **fields):
    answer = ask("/periodic/save", method="POST", body=urlencode(fields), accept="application/json")
    return answer.status, json.loads(answer.body).get("done") or json.loads(answer.body)["error"]


def test_a_job_is_added_by_a_form_pushed_like_one_in_code_and_changed(config, raw_redis):
    ask = asker(config)
    added = {"name": "new", "cron": "@every 1s", "job": "shop.report", "queue": "low", "tz": "Europe/Berlin"}
    assert save(ask, **added, arguments='[1, "<b>"]', description="for <b>") == (200, "Saved: new")
    service = PeriodicService(Installation.of(config), [])
    wait_for(lambda: [service.tick(), raw_redis.llen("queue:low")][1], 20)
    assert json.loads(raw_redis.lindex("queue:low", 0))["args"] == [1, "<b>"]
    assert json.loads(raw_redis.lindex("queue:low", 0))["class"] == "shop.report"

    forms = {form["aria-label"]: form for form in Markup(ask("/periodic/new").body.decode()).all("form")}
    assert "Change" in forms
    values = {each["name"]: each["value"] for each in Markup(ask("/periodic/new").body.decode()).all("input")}
    assert values | added == values
    assert values["arguments"] == '[1, "<b>"]'
    assert save(ask, name="new", cron="0 3 * * *", job="shop.report", tz="UTC")[0] == 200
    entry = PeriodicJobs(config)["new"].entry
    assert (entry.cron, entry.tz, entry.queue, entry.args) == ("0 3 * * *", "UTC", "", (1, "<b>"))


@pytest.mark.parametrize(
    "changed,problem",
    [
        ({"cron": "0 25 * * *"}, "25"),
        ({"arguments": "1, 2"}, "arguments: expected JSON"),
        ({"arguments": '{"days": 2}'}, "takes no keyword arguments"),
        ({"arguments": "5"}, "arguments: expected JSON"),
        ({"name": "clean"}, "is registered in code or in a file: change it there"),
        ({"name": "a b"}, "a name must have"),
        ({"job": ""}, "job expects a job or its name"),
        ({"tz": "Mars"}, "Mars"),
    ],
)
def test_a_wrong_form_changes_nothing_and_names_the_problem(config, changed, problem):
    status, message = save(asker(config), **{"name": "new", "cron": "@daily", "job": "A"} | changed)
    assert (status, problem in message) == (400, True), message
    assert [job.name for job in PeriodicJobs(config)] == ["clean"]


def test_redacted_arguments_are_not_in_the_form_and_stay(config):
    PeriodicJobs(config).add("@daily", "A", name="secretive", args=["4711"])
    ask = asker(config, redact=lambda name, args, kwargs: ["hidden"])
    assert "4711" not in ask("/periodic/secretive").body.decode()
    assert save(ask, name="secretive", cron="@hourly", job="A")[0] == 200
    entry = PeriodicJobs(config)["secretive"].entry
    assert (entry.cron, entry.args) == ("@hourly", ("4711",))


def test_the_state_shows_differing_processes_and_missing_workers(ask, config):
    redis = Installation.of(config).redis
    publish(redis, make("clean", "@daily", "Clean"))
    assert "active" in ask("/periodic").body.decode()
    publish(redis, make("clean", "@hourly", "Clean"), since=2.0)
    assert "differs" in ask("/periodic").body.decode()
    assert "Live processes define this job differently" in ask("/periodic/clean").body.decode()


def test_the_page_of_a_job_names_its_periodic_job():
    facts = job_facts({"periodic": {"name": "clean", "at": 60}})
    assert facts["Periodic job"] == WebLink("clean", "/periodic/clean")
    assert job_facts({}) == job_facts({"periodic": 5}) == {}
    assert job_facts({"periodic": {}})["Tick"].at == 0
