"""The tab of concurrency limits in the pages."""

from __future__ import annotations

import json

import pytest

from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.ext.concurrency_limits import store, web
from offsider.ext.concurrency_limits.store import Names
from offsider.inspector import Queue
from offsider.web.app import WebApp
from offsider.web.options import WebOptions
from offsider.web.request import Request

HEADERS = {"host": "localhost", "accept": "text/html", "sec-fetch-site": "same-origin"}
NAME = "<b>Hard</b>"
PATH = "/limits/%3Cb%3EHard%3C%2Fb%3E"


@pytest.fixture
def ask(config):
    app = WebApp(WebOptions({"main": Installation.of(config)}))

    def answer(path, *, method="GET", accept="text/html", body=""):
        form = {"content-type": "application/x-www-form-urlencoded"} if body else {}
        headers = {**HEADERS, **form, "accept": accept}
        return app.respond(Request(method, path, query="", headers=headers, body=body.encode()))

    return answer


@pytest.fixture
def busy(config, redis, raw_redis):
    """A class at its limit of 3, with held jobs."""
    names = Names(redis.keys)
    store.declare(redis, {NAME: 3}, {}, config.clock.now())
    raw_redis.sadd(names.active, NAME)
    raw_redis.sadd(redis.keys.places, names.held(NAME))
    raw_redis.zadd(names.slots(NAME), {f"host:1:0123456789ab {n} held{n}": 1_700_000_000_000 for n in range(3)})
    for jid in ("a", "b"):
        raw_redis.lpush(names.held(NAME), encode({"class": NAME, "args": [], "jid": jid, "queue": "default"}))


def post(ask, action, body=""):
    answer = ask(f"{PATH}/{action}", method="POST", accept="application/json", body=body)
    return json.loads(answer.body)["done"]


def test_without_limits_the_page_has_a_note(ask):
    assert "No concurrency limits." in ask("/limits").body.decode()


def test_classes_are_listed_with_their_limits(ask, busy):
    page = ask("/limits").body.decode()
    assert "&lt;b&gt;Hard&lt;/b&gt;" in page
    assert PATH in page
    assert '<a href="/limits" aria-current="page">Concurrency</a>' in page


def test_a_class_has_a_page_with_its_runs_and_held_jobs(ask, busy):
    page = ask(PATH).body.decode()
    for text in ("held0", "host:1:0123456789ab", "/search?q=a", "Limit 4", "Quarantine held", "Pause"):
        assert text in page
    assert ask("/limits/Nobody").status == 404


def test_a_note_mentions_held_jobs_that_are_not_shown(ask, busy, raw_redis, redis, monkeypatch):
    monkeypatch.setattr(web, "_MOST", 1)
    assert "Showing the first 1 of 2 held jobs." in ask(PATH).body.decode()


def test_a_class_is_paused_and_resumed_and_its_limit_changed(ask, busy, limits, config):
    assert post(ask, "pause") == f"Paused: {NAME}"
    page = ask(PATH).body.decode()
    assert "paused" in page
    assert "Resume" in page
    assert post(ask, "resume") == f"Resumed: {NAME}"
    assert post(ask, "set", "limit=4") == f"Limit of {NAME}: 4"
    assert limits.find(NAME).limit == 4
    assert len(Queue("default", config)) == 1
    assert "Unset limit" in ask(PATH).body.decode()
    assert post(ask, "unset") == f"Limit of {NAME}: as in code"
    assert limits.find(NAME).set_to is None


def test_held_jobs_are_quarantined_or_deleted(ask, busy, limits, raw_redis, redis):
    assert post(ask, "quarantine") == "Quarantined: 2"
    raw_redis.lpush(Names(redis.keys).held(NAME), encode({"class": NAME, "args": [], "jid": "c"}))
    assert post(ask, "delete") == "Deleted: 1"
    assert limits.find(NAME).held == 0


def test_a_class_without_a_limit_but_with_held_jobs_has_a_page(ask, busy, limits, redis):
    store.declare(redis, {NAME: 0}, {}, 0)
    assert "none" in ask(PATH).body.decode()


def test_the_page_of_a_job_shows_the_limit_of_its_class():
    assert web.job_facts({"class": "Hard", "concurrency_limit": 3})["Concurrency limit"].path == "/limits/Hard"
    assert web.job_facts({"class": "Hard"}) == {}
