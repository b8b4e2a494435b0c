"""The tab of batches in the pages, and the check of the doctor."""

from __future__ import annotations

import json

import pytest

from offsider.config.installation import Installation
from offsider.ext.batches import web
from offsider.ext.batches.doctor import check_batches, families
from offsider.inspector.doctor import Severity
from offsider.web.app import WebApp
from offsider.web.options import WebOptions
from offsider.web.request import Request

HEADERS = {"host": "localhost", "accept": "text/html", "sec-fetch-site": "same-origin"}
X = {"class": "X", "args": []}


@pytest.fixture
def ask(config):
    app = WebApp(WebOptions({"main": Installation.of(config)}))

    def answer(path, *, method="GET", accept="text/html"):
        return app.respond(Request(method, path, headers={**HEADERS, "accept": accept}, body=b""))

    return answer


def test_batches_are_listed_and_have_a_page_with_their_tree_members_and_callbacks(ask, watched, client, tell):
    with watched(description="<b>import</b>", tags=["nightly"]) as parent, watched(description="part") as child:
        jids = [client.push(X) for _ in range(3)]
    tell(child, "failed", jids[0], "X: ValueError")
    tell(child, "died", jids[1], "X: KeyError")
    page = ask("/batches").body.decode()
    assert f"/batches/{parent.bid}" in page
    assert "&lt;b&gt;import&lt;/b&gt;" in page
    assert "0 / 3" in page
    assert f"/batches/{child.bid}" in ask(f"/batches/{parent.bid}").body.decode()
    page = ask(f"/batches/{child.bid}").body.decode()
    for text in ("0 / 3", f"/batches/{parent.bid}", "X: ValueError", "X: KeyError", jids[1]):
        assert text in page
    assert child.status().callbacks[0].jid in page
    assert ask("/batches/gone").status == 404


def test_each_state_has_its_word(ask, make, client, tell):
    def shown(batch):
        page = ask(f"/batches/{batch.bid}").body.decode()
        words = ("succeeded", "invalidated", "dead jobs", "open", "complete", "running")
        return [word for word in words if f">{word}</" in page]

    batch = make(autoflush=1)
    with batch:
        jid = client.push(X)
        assert shown(batch) == ["open"]
        assert "A block of this batch is storing jobs" in ask(f"/batches/{batch.bid}").body.decode()
    assert shown(batch) == ["running"]
    tell(batch, "failed", jid)
    assert shown(batch) == ["complete"]
    tell(batch, "died", jid)
    assert shown(batch) == ["dead jobs"]
    batch.invalidate_all()
    assert shown(batch) == ["invalidated"]
    tell(batch, "succeeded", jid)
    assert shown(batch) == ["succeeded"]


def test_a_truncated_list_has_a_note(ask, make, monkeypatch):
    monkeypatch.setattr(web, "MOST", 1)
    for _ in range(2):
        with make():
            pass
    assert "Showing 1 of about 2 batches" in ask("/batches").body.decode()


def test_without_batches_the_page_has_a_note(ask):
    assert "No batches." in ask("/batches").body.decode()


@pytest.mark.parametrize("action, says", [("invalidate", "Invalidated"), ("close", "Closed all blocks")])
def test_operators_invalidate_and_close_batches(ask, make, action, says):
    batch = make()
    batch.open("token", 0)
    answer = ask(f"/batches/{batch.bid}/{action}", method="POST", accept="application/json")
    assert json.loads(answer.body) == {"done": f"{says}: {batch.bid}"}
    assert (batch.valid(), batch.status().open_blocks) == ((False, 1) if action == "invalidate" else (True, 0))
    answer = ask(f"/batches/gone/{action}", method="POST", accept="application/json")
    assert json.loads(answer.body) == {"done": "There is no batch gone"}


def test_operators_delete_batches(ask, make):
    with make() as batch:
        pass
    ask(f"/batches/{batch.bid}/delete", method="POST", accept="application/json")
    assert ask(f"/batches/{batch.bid}").status == 404


def test_programs_poll_the_status_as_json(ask, make, client):
    with make(data={"n": 1}) as batch:
        client.push(X)
    answer = ask(f"/batch_status/{batch.bid}.json", accept="*/*")
    found = json.loads(answer.body)
    assert (found["bid"], found["total"], found["pending"], found["is_complete"]) == (batch.bid, 1, 1, False)
    assert found["data"] == {"n": 1}
    assert ask("/batch_status/gone.json", accept="*/*").status == 404


def test_the_page_of_a_job_shows_its_batch():
    facts = web.job_facts({"bid": "abc", "batch_callback": 5})
    assert [(name, link.path) for name, link in facts.items()] == [("Batch", "/batches/abc")]


def test_the_doctor_reports_blocks_that_were_left_open(make, config, raw_redis):
    here = Installation.of(config)
    (finding,) = check_batches(here)
    assert (finding.severity, finding.what) == (Severity.OK, "0 batches")
    batch = make()
    batch.open("token", 0)
    assert next(check_batches(here)).what == "1 batch"
    raw_redis.hincrby(f"b-{batch.bid}", "opened_at", -3_700_000)
    (finding,) = check_batches(here)
    assert finding.severity is Severity.WARN
    assert batch.bid in finding.what
    assert "close_blocks()" in finding.fix


def test_the_doctor_reports_an_open_block_on_any_page_and_too_many_batches(make, config, raw_redis, monkeypatch):
    monkeypatch.setattr("offsider.ext.batches.store.PAGE", 2)
    monkeypatch.setattr("offsider.ext.batches.doctor.MANY", 4)
    here = Installation.of(config)
    old, *others = (make() for _ in range(5))
    for batch in (old, *others):
        batch.open("token", 0)
    raw_redis.hincrby(f"b-{old.bid}", "opened_at", -3_700_000)
    raw_redis.zadd("batches", {old.bid: 1e9})  # on the last page
    many, left = check_batches(here)
    assert many.what == "5 batches are stored"
    assert old.bid in left.what


def test_batches_are_a_metric(make, config):
    with make():
        pass
    (family,) = families(Installation.of(config))
    assert (family.name, family.samples[0].value) == ("offsider_batches", 1)
