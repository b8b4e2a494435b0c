"""The tab of locks in the pages."""

from __future__ import annotations

import json

from offsider.ext.unique import Locks, web

JOB = {"class": "<b>Hard</b>", "args": [1], "unique_for": 60}


def test_locks_are_listed_with_their_jobs(ask, client, config):
    jid = client.push(JOB)
    (lock,) = Locks(config)
    page = ask("/locks").body.decode()
    assert "&lt;b&gt;Hard&lt;/b&gt;" in page
    assert f"/job/{jid}" in page
    assert f"/locks/{lock.name}" in page
    assert '<a href="/fleet" aria-current="page">Fleet</a>' in page
    assert jid in ask("/jobs", query=f"text={jid}").body.decode()


def test_a_lock_has_a_page_and_can_be_released(ask, client, config):
    client.push(JOB)
    (lock,) = Locks(config)
    assert lock.jid in ask(f"/locks/{lock.name}").body.decode()
    answer = ask(f"/locks/{lock.name}/release", method="POST", accept="application/json")
    assert json.loads(answer.body) == {"done": f"Released: {lock.job_name} {lock.jid}"}
    assert len(Locks(config)) == 0
    answer = ask(f"/locks/{lock.name}/release", method="POST", accept="application/json")
    assert answer.status == 404
    assert ask(f"/locks/{lock.name}").status == 404


def test_a_lock_shows_that_its_job_runs_once_more(ask, client):
    options = {"unique_until": "until_executed", "reschedule_once": True}
    client.push({"class": "Hard", "args": [], **options})
    client.push({"class": "Hard", "args": [], **options})
    assert "runs again" in ask("/locks").body.decode()


def test_many_locks_are_not_all_shown(ask, client, monkeypatch):
    monkeypatch.setattr(web, "_MAX_LOCKS", 10)
    client.push_bulk({**JOB, "args": [[number] for number in range(30)]})
    assert "Showing 10 of about 30 locks" in ask("/locks").body.decode()


def test_a_jobs_page_names_its_lock():
    assert web.job_facts({"class": "Hard", "args": []}) == {}
    facts = web.job_facts({"idempotency_key": "k", "rescheduled_once": "j1"})
    assert facts["Runs again for"] == "j1"
    assert list(facts) == ["Lock", "Runs again for"]
