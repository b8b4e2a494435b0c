"""Switches on a page: shown, set, cleared, and told where the class is looked at."""

from __future__ import annotations

import json
import logging
from urllib.parse import urlencode

import pytest

from offsider.inspector import Switches
from offsider.storage import registered, switches
from tests.markup import Markup


def body(**fields: object) -> str:
    return urlencode(fields)


def test_without_a_switch_the_page_says_so_and_has_a_form(ask, read):
    assert read("/switches")["switches"] == []
    page = Markup(ask("/switches", "name=app.Export").body.decode())
    assert "No switch is set" in page.text
    assert 'value="app.Export"' in ask("/switches", "name=app.Export").body.decode()


def test_it_shows_what_is_done_with_which_jobs_since_when_by_whom_and_why(ask, read, config):
    Switches(config).drop("HardJob", by="ann", reason="the bank <is> down", lasting=3600)
    Switches(config).drop("Old", delete=True)
    Switches(config).defer("app.Export", 120)
    switches.count(config.shared_redis(), {"HardJob": 7})
    hard, old, export = read("/switches")["switches"]
    assert (hard["name"], hard["action"], hard["keep"], hard["acted"]) == ("HardJob", "drop", True, 7)
    assert (hard["by"], hard["reason"], hard["path"]) == ("ann", "the bank <is> down", "/metrics/HardJob")
    assert hard["until"] == pytest.approx(hard["since"] + 3600, abs=1)
    assert (old["keep"], old["until"]) == (False, None)
    assert (export["action"], export["delay_seconds"]) == ("defer", 120.0)
    text = Markup(ask("/switches").body.decode()).text
    for part in ("dropped", "deleted", "put off", "the bank <is> down", "Let them run"):
        assert part in text


def test_a_class_is_dropped_once_it_is_clear_that_this_is_meant(ask, config, caplog):
    caplog.set_level(logging.INFO, "offsider.web")
    asked = ask("/switches/drop", method="POST", body=body(name="HardJob", reason="broken", hours=2))
    question = Markup(asked.body.decode())
    assert "Put all jobs of HardJob that come up into the quarantine?" in question.text
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
    assert "switch.drop: Jobs of HardJob are dropped from now on" in caplog.text


def test_programs_set_and_clear_switches_and_are_told(ask, config):
    def act(verb: str, **fields: object):
        answer = ask(f"/switches/{verb}", method="POST", body=body(**fields), accept="application/json")
        return answer.status, json.loads(answer.body)

    assert act("drop", name="HardJob", delete="1") == (
        200,
        {"done": "Jobs of HardJob are dropped from now on", "name": "HardJob"},
    )
    assert [switch.keep for switch in Switches(config)] == [False]
    assert act("defer", name="HardJob", minutes=2)[0] == 200
    (switch,) = Switches(config)
    assert (switch.action, switch.delay_seconds, switch.until) == ("defer", 120.0, None)
    for cleared, said in ((True, "Jobs of HardJob run again"), (False, "No switch is set for HardJob")):
        assert act("clear", name="HardJob")[1] == {"done": said, "name": "HardJob", "cleared": cleared}
    assert list(Switches(config)) == []
    assert act("drop", name=" ")[0] == 400
    assert act("defer", name="A", minutes=0)[0] == 400
    assert act("drop", name="x" * 501)[0] == 400
    assert list(Switches(config)) == []


def test_who_signed_in_is_told_as_the_one_who_has_set_it(ask_with, config):
    ask = ask_with(authenticate=lambda request: "ann")
    ask("/switches/defer", method="POST", body=body(name="HardJob"))
    assert [switch.by for switch in Switches(config)] == ["ann"]


def test_each_action_is_authorized_by_itself(ask_with, config):
    ask = ask_with(authorize=lambda visit, action: action in {"page", "switch.defer"})
    text = Markup(ask("/switches").body.decode()).text
    assert "Put off by minutes" in text
    assert "Dropped jobs" not in text
    assert ask("/switches/drop", method="POST", body=body(name="A", confirmed="yes")).status == 403
    assert ask("/switches/clear", method="POST", body=body(name="A")).status == 403
    assert ask("/switches/defer", method="POST", body=body(name="A")).status == 303
    read_only = ask_with(read_only=True)
    assert '<form method="post" class="panel' not in read_only("/switches").body.decode()
    assert read_only("/switches/clear", method="POST", body=body(name="A")).status == 403
    assert [switch.name for switch in Switches(config)] == ["A"]


def test_a_change_has_to_come_from_the_pages_themselves(ask, config):
    foreign = {"sec-fetch-site": "cross-site"}
    assert ask("/switches/defer", method="POST", body=body(name="A"), **foreign).status == 403
    assert list(Switches(config)) == []


def test_the_dashboard_and_the_page_of_the_class_tell_of_it(ask, read, config):
    assert read("/")["switched"] == []
    assert read("/metrics/HardJob")["switched"] is False
    Switches(config).drop("HardJob")
    assert read("/")["switched"] == ["HardJob"]
    assert read("/metrics/HardJob")["switched"] is True
    assert read("/metrics/Other")["switched"] is False
    assert "Jobs of some classes are dropped or put off: HardJob" in Markup(ask("/").body.decode()).text
    page = ask("/metrics/HardJob").body.decode()
    assert "Jobs of this class are dropped or put off." in page
    assert 'href="/switches?name=HardJob"' in page


def test_a_server_that_does_not_have_the_switch_is_named(ask, config, redis_url):
    config.add_server("twin", url=redis_url, key_prefix="twin:")
    Switches(config).drop("HardJob")
    switches.clear(config.redis_of("twin"), "HardJob")
    assert "not on twin: set it once more" in ask("/switches").body.decode()


def test_a_server_that_has_another_switch_is_named(ask, config, redis_url):
    config.add_server("twin", url=redis_url, key_prefix="twin:")
    Switches(config).drop("HardJob")
    switches.put(config.redis_of("twin"), switches.Switch("HardJob", "defer", delay_seconds=60.0))
    assert "another one on twin: set it once more" in ask("/switches").body.decode()


def test_a_server_that_is_away_is_named_and_the_others_are_shown(ask, read, config):
    config.add_server("away", url="redis://127.0.0.1:1/0", connect_timeout_seconds=0.2)
    assert "No switch is set" not in ask("/switches").body.decode()
    failed = ask("/switches/defer", method="POST", body=body(name="HardJob"))
    assert failed.status == 503
    assert "changed on main, and not on away" in failed.body.decode()
    seen = read("/switches")
    assert [switch["name"] for switch in seen["switches"]] == ["HardJob"]
    assert [server["server"] for server in seen["away"]] == ["away"]
    assert "The server does not answer" in ask("/switches").body.decode()


def test_the_question_says_what_is_deleted_and_whether_anybody_knows_it(ask, config, raw_redis):
    def asked(name: str) -> str:
        page = ask("/switches/drop", method="POST", body=body(name=name, delete="1"), accept_language="de")
        return Markup(page.body.decode()).text

    assert "Alle Jobs von HardJob, die an die Reihe kommen, endgültig löschen?" in asked("HardJob")
    raw_redis.sadd("processes", "a:1:x")
    raw_redis.hset("a:1:x", mapping={"info": "{}"})
    registered.publish(config.shared_redis(), "a:1:x", {"HardJob": "5ca1ab1e"})
    assert "Kein laufender Worker" not in asked("HardJob")
    assert "Kein laufender Worker kennt einen Job dieses Namens" in asked("HadrJob")
    assert list(Switches(config)) == []
