"""The tab of batches in the pages, and the check of the doctor."""

from __future__ import annotations

import json
import time

import pytest

from offsider.config.installation import Installation
from offsider.ext.batches import web
from offsider.ext.batches.status import check_batches, families
from offsider.inspector.finding import Severity
from tests.hostile import STRINGS
from tests.markup import Markup

X = {"class": "X", "args": []}


@pytest.fixture
def listed(ask):
    """The bids of a page of the list, and its pager or the progress of its scan."""

    def listed(query=""):
        data = json.loads(ask("/batches", query, accept="application/json").body)
        (table,) = data["blocks"]
        return [row[0]["text"] for row in table["rows"]], data["pager"] or data["search"]

    return listed


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


def test_batches_are_found_by_tag_with_a_statement_how_far_the_scan_got(ask, listed, empty):
    other, *found = (empty(tags=["import", tag]) for tag in ("daily", "nightly", "nightly"))
    bids, search = listed("tag=nightly")
    assert set(bids) == set(found)
    assert (search["found"], search["scanned"], search["total"], search["more"]) == (2, 3, 3, "")
    page = ask("/batches", "tag=nightly").body.decode()
    assert "Found: 2. Scanned everything." in page
    assert f'<tr data-key="/batches/{found[0]}">' in page
    assert '<a class="tag" href="/batches?tag=nightly">nightly</a>' in ask(f"/batches/{found[0]}").body.decode()
    assert listed("tag=night")[0] == []
    assert "No batch has this tag." in ask("/batches", "tag=night").body.decode()
    assert listed("tag=+daily+")[0] == [other]


def test_hostile_tags_add_no_elements_and_their_links_find_the_batch(ask, listed, empty, raw_redis):
    def shape(page):
        return [each.attributes.get("class") == "tag" or each.tag for each in Markup(page).elements]

    plain = [each for each in shape(ask(f"/batches/{empty(tags=['plain'])}").body.decode()) if each is not True]
    raw_redis.flushdb()
    texts = [*dict.fromkeys(STRINGS)]
    for few in (texts[start : start + 20] for start in range(0, len(texts), 20)):
        bid = empty(tags=few)
        page = ask(f"/batches/{bid}").body.decode()
        assert [each for each in shape(page) if each is not True] == plain
        links = [each for each in Markup(page).elements if each.attributes.get("class") == "tag"]
        assert len(links) == len(few)
        for link in (each for each in links if each.tag == "a"):
            assert bid in listed(link.attributes["href"].partition("?")[2])[0]


def test_notes_mention_children_and_members_that_are_not_shown(ask, make, client, tell, monkeypatch):
    monkeypatch.setattr(web, "MAX_ROWS", 2)
    with make() as parent:
        jids = [client.push(X) for _ in range(5)]
        for _ in range(3):
            with make():
                pass
    for jid in jids[:3]:
        tell(parent, "failed", jid)
    for jid in jids[3:]:
        tell(parent, "died", jid)
    page = ask(f"/batches/{parent.bid}").body.decode()
    assert "Children: only 2 are shown." in page
    assert "Failed members: only 2 are shown." in page
    assert "Dead members: only" not in page


@pytest.mark.parametrize("action, says", [("invalidate", "Invalidated"), ("close", "Closed all blocks")])
def test_operators_invalidate_close_and_delete_batches(ask, make, action, says):
    batch = make()
    batch.stored.open("token", 0)
    answer = ask(f"/batches/{batch.bid}/{action}", method="POST", accept="application/json")
    assert json.loads(answer.body) == {"done": f"{says}: {batch.bid}"}
    assert (batch.valid(), batch.status().open_blocks) == ((False, 1) if action == "invalidate" else (True, 0))
    answer = ask(f"/batches/{batch.bid}/delete", method="POST", accept="application/json")
    assert (json.loads(answer.body), ask(f"/batches/{batch.bid}").status) == ({"done": f"Deleted: {batch.bid}"}, 404)
    answer = ask(f"/batches/gone/{action}", method="POST", accept="application/json")
    assert answer.status == 404
    assert "there is no batch gone" in json.loads(answer.body)["error"]


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
    server = Installation.of(config)
    batch = make()
    batch.stored.open("token", 0)
    assert list(check_batches(server)) == []
    raw_redis.hincrby(f"b-{batch.bid}", "opened_at", -3_700_000)
    (finding,) = check_batches(server)
    assert (finding.severity, finding.subject, finding.numbers) == (Severity.WARN, batch.bid, {"batches": 1})
    assert finding.since == pytest.approx(time.time() - 3_700, abs=60)
    assert batch.bid in finding.what
    assert "close_blocks()" in finding.actions[0]


def test_the_doctor_reports_an_open_block_on_any_page_and_too_many_batches(make, config, raw_redis, monkeypatch):
    monkeypatch.setattr("offsider.ext.batches.store.PAGE", 2)
    monkeypatch.setattr("offsider.ext.batches.status.MANY", 4)
    here = Installation.of(config)
    old, *others = (make() for _ in range(5))
    for batch in (old, *others):
        batch.stored.open("token", 0)
    raw_redis.hincrby(f"b-{old.bid}", "opened_at", -3_700_000)
    raw_redis.zadd("batches", {old.bid: 4e9, **{batch.bid: 4.1e9 for batch in others}})  # on the last page
    many, left = check_batches(here)
    assert many.what == "5 batches are stored"
    assert old.bid in left.what


def test_batches_are_a_metric(make, config):
    with make():
        pass
    (family,) = families(Installation.of(config))
    assert (family.name, family.samples[0].value) == ("offsider_batches", 1)
