"""Switches on a page: shown, set, cleared, and mentioned on the page of their class."""

from __future__ import annotations

import json
import logging
from urllib.parse import urlencode

import pytest

from offsider.config.installation import Installation
from offsider.inspector import Switches
from offsider.storage import processes, switches
from tests.markup import Markup


def body(**fields: object) -> str:
    return urlencode(fields)


def test_without_a_switch_the_page_has_a_note_and_a_form(ask, read):
    assert read("/switches")["switches"] == []
    page = Markup(ask("/switches", "name=app.Export").body.decode())
    assert "No kill switches are set" in page.text
    assert 'value="app.Export"' in ask("/switches", "name=app.Export").body.decode()


def test_a_switch_is_shown_with_class_action_time_user_and_reason(ask, read, config):
    Switches(config).drop("HardJob", by="ann", reason="the bank <is> down", lasting=3600)
    Switches(config).drop("Old", delete=True)
    Switches(config).defer("app.Export", 120)
    switches.count(Installation.of(config).redis, {"HardJob": 7})
    hard, old, export = read("/switches")["switches"]
    assert (hard["name"], hard["action"], hard["keep"], hard["acted"]) == ("HardJob", "drop", True, 7)
    assert (hard["by"], hard["reason"], hard["path"]) == ("ann", "the bank <is> down", "/metrics/HardJob")
    assert hard["until"] == pytest.approx(hard["since"] + 3600, abs=1)
    assert (old["keep"], old["until"]) == (False, None)
    assert (export["action"], export["delay_seconds"]) == ("defer", 120.0)
    text = Markup(ask("/switches").body.decode()).text
    for part in ("dropped", "deleted", "deferred", "the bank <is> down", "Clear"):
        assert part in text


def test_dropping_a_class_asks_for_confirmation(ask, config, caplog):
    caplog.set_level(logging.INFO, "offsider.web")
    asked = ask("/switches/drop", method="POST", body=body(name="HardJob", reason="broken", hours=2))
    question = Markup(asked.body.decode())
    assert "Drop jobs of HardJob? Workers move them to quarantine." in question.text
    assert list(Switches(config)) == []
    form = question.form(lambda form: form.action.startswith("/switches/"))
    done = ask(form.action, method="POST", body=urlencode(form.fields))
    assert dict(done.headers)["location"] == "/switches"
    (switch,) = Switches(config)
    assert (switch.name, switch.keep, switch.reason, switch.until) == (
        "HardJob",
        True,
        "broken",
        switch.since + 7200,
    )
    assert "switch.drop who=unknown " in caplog.text
    assert ": Kill switch set. Workers drop jobs of HardJob." in caplog.text


def test_programs_set_and_clear_switches(ask, config):
    def act(verb: str, **fields: object):
        answer = ask(f"/switches/{verb}", method="POST", body=body(**fields), accept="application/json")
        return answer.status, json.loads(answer.body)

    assert act("drop", name="HardJob", delete="1") == (
        200,
        {"done": "Kill switch set. Workers drop jobs of HardJob.", "name": "HardJob"},
    )
    assert [switch.keep for switch in Switches(config)] == [False]
    assert act("defer", name="HardJob", minutes=2)[0] == 200
    (switch,) = Switches(config)
    assert (switch.action, switch.delay_seconds, switch.until) == ("defer", 120.0, None)
    for cleared, message in (
        (True, "Kill switch cleared. Workers run jobs of HardJob again."),
        (False, "No kill switch is set for HardJob."),
    ):
        assert act("clear", name="HardJob")[1] == {"done": message, "name": "HardJob", "cleared": cleared}
    assert list(Switches(config)) == []
    assert act("drop", name=" ")[0] == 400
    assert act("defer", name="A", minutes=0)[0] == 400
    assert act("drop", name="x" * 501)[0] == 400
    assert list(Switches(config)) == []


def test_the_authenticated_user_is_recorded(ask_with, config):
    ask = ask_with(authenticate=lambda request: "ann")
    ask("/switches/defer", method="POST", body=body(name="HardJob"))
    assert [switch.by for switch in Switches(config)] == ["ann"]


def test_each_action_is_authorized_separately(ask_with, config):
    ask = ask_with(authorize=lambda request, action: action in {"page", "switch.defer"})
    text = Markup(ask("/switches").body.decode()).text
    assert "Defer by (minutes)" in text
    assert "Dropped jobs" not in text
    assert ask("/switches/drop", method="POST", body=body(name="A", confirmed="yes")).status == 403
    assert ask("/switches/clear", method="POST", body=body(name="A")).status == 403
    assert ask("/switches/defer", method="POST", body=body(name="A")).status == 303
    read_only = ask_with(read_only=True)
    assert '<form method="post" class="panel' not in read_only("/switches").body.decode()
    assert read_only("/switches/clear", method="POST", body=body(name="A")).status == 403
    assert [switch.name for switch in Switches(config)] == ["A"]


def test_changes_from_other_sites_are_refused(ask, config):
    foreign = {"sec-fetch-site": "cross-site"}
    assert ask("/switches/defer", method="POST", body=body(name="A"), **foreign).status == 403
    assert list(Switches(config)) == []


def test_the_dashboard_and_the_page_of_the_class_show_the_switch(ask, read, config):
    assert read("/")["switched"] == []
    assert read("/metrics/HardJob")["switched"] is False
    Switches(config).drop("HardJob")
    assert read("/")["switched"] == ["HardJob"]
    assert read("/metrics/HardJob")["switched"] is True
    assert read("/metrics/Other")["switched"] is False
    assert "Active kill switches: HardJob" in Markup(ask("/").body.decode()).text
    page = ask("/metrics/HardJob").body.decode()
    assert "A kill switch is active for this class." in page
    assert 'href="/switches?name=HardJob"' in page


def test_a_server_without_the_switch_is_named(ask, config, redis_url, tag):
    config.add_server("twin", url=redis_url, key_prefix=f"{tag}twin:")
    Switches(config).drop("HardJob")
    switches.clear(Installation.of(config, "twin").redis, "HardJob")
    assert "missing on twin: set it again" in ask("/switches").body.decode()


def test_a_server_with_a_different_switch_is_named(ask, config, redis_url, tag):
    config.add_server("twin", url=redis_url, key_prefix=f"{tag}twin:")
    Switches(config).drop("HardJob")
    switches.put(Installation.of(config, "twin").redis, switches.Switch("HardJob", "defer", delay_seconds=60.0))
    assert "differs on twin: set it again" in ask("/switches").body.decode()


def test_an_unreachable_server_is_named_and_the_others_are_shown(ask, read, config):
    config.add_server("away", url="redis://127.0.0.1:1/0", socket_timeout_seconds=0.2)
    assert "No kill switches are set" not in ask("/switches").body.decode()
    failed = ask("/switches/defer", method="POST", body=body(name="HardJob"))
    assert failed.status == 503
    assert "changed on main, but not on away" in failed.body.decode()
    seen = read("/switches")
    assert [switch["name"] for switch in seen["switches"]] == ["HardJob"]
    assert [server["server"] for server in seen["away"]] == ["away"]
    assert "Redis is not responding" in ask("/switches").body.decode()


def test_the_confirmation_names_the_class_and_whether_a_worker_can_run_it(ask, config, raw_redis):
    def asked(name: str) -> str:
        page = ask("/switches/drop", method="POST", body=body(name=name, delete="1"))
        return Markup(page.body.decode()).text

    assert "Drop jobs of HardJob? Workers delete them permanently." in asked("HardJob")
    raw_redis.sadd("processes", "a:1:x")
    raw_redis.hset("a:1:x", mapping={"info": "{}"})
    processes.publish_jobs(Installation.of(config).redis, "a:1:x", {"HardJob": "5ca1ab1e"})
    assert "No live worker" not in asked("HardJob")
    assert "No live worker declares this class." in asked("HadrJob")
    assert list(Switches(config)) == []
