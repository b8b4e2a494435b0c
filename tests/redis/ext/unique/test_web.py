"""The tab of locks in the pages."""

from __future__ import annotations

import json

import pytest

from offsider.config.installation import Installation
from offsider.ext.unique import Locks, web
from offsider.web.app import WebApp
from offsider.web.options import WebOptions
from offsider.web.request import Request

HEADERS = {"host": "localhost", "accept": "text/html", "sec-fetch-site": "same-origin"}
JOB = {"class": "<b>Hard</b>", "args": [1], "unique_for": 60}


@pytest.fixture
def ask(config):
    app = WebApp(WebOptions({"main": Installation.of(config)}))

    def answer(path, *, method="GET", query="", accept="text/html", body=""):
        form = {"content-type": "application/x-www-form-urlencoded"} if body else {}
        headers = {**HEADERS, **form, "accept": accept}
        return app.respond(Request(method, path, query=query, headers=headers, body=body.encode()))

    return answer


def test_locks_are_listed_with_their_jobs(ask, client, config):
    jid = client.push(JOB)
    (lock,) = Locks(config)
    page = ask("/locks").body.decode()
    assert "&lt;b&gt;Hard&lt;/b&gt;" in page
    assert f"/search?q={jid}" in page
    assert f"/locks/{lock.name}" in page
    assert '<a href="/locks" aria-current="page">Locks</a>' in page
    assert jid in ask("/search", query=f"q={jid}").body.decode()


def test_without_locks_the_page_has_a_note(ask):
    assert "No locks are held." in ask("/locks").body.decode()


def test_a_lock_has_a_page_and_can_be_released(ask, client, config):
    client.push(JOB)
    (lock,) = Locks(config)
    assert lock.jid in ask(f"/locks/{lock.name}").body.decode()
    answer = ask(f"/locks/{lock.name}/release", method="POST", accept="application/json")
    assert json.loads(answer.body) == {"done": f"Released: {lock.name}"}
    assert len(Locks(config)) == 0
    answer = ask(f"/locks/{lock.name}/release", method="POST", accept="application/json")
    assert json.loads(answer.body) == {"done": f"Lock {lock.name} is not held"}
    assert ask(f"/locks/{lock.name}").status == 404


def test_a_lock_shows_that_its_job_runs_once_more(ask, client):
    options = {"unique_until": "until_executed", "reschedule_once": True}
    client.push({"class": "Hard", "args": [], **options})
    client.push({"class": "Hard", "args": [], **options})
    assert "runs again" in ask("/locks").body.decode()


def test_many_locks_are_not_all_shown(ask, client, monkeypatch):
    monkeypatch.setattr(web, "_MOST", 10)
    client.push_bulk({**JOB, "args": [[number] for number in range(30)]})
    assert "Showing 10 of about 30 locks" in ask("/locks").body.decode()


def test_a_jobs_page_names_its_lock():
    assert web.job_facts({"class": "Hard", "args": []}) == {}
    facts = web.job_facts({"idempotency_key": "k", "rescheduled_once": "j1"})
    assert facts["Runs again for"] == "j1"
    assert list(facts) == ["Lock", "Runs again for"]
