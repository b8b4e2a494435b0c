"""The tab of batches in the pages, and the check of the doctor."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from offsider.config.installation import Installation
from offsider.ext.batches import web
from offsider.ext.batches.doctor import check_batches, families
from offsider.inspector.finding import Severity
from offsider.web.app import WebApp
from offsider.web.options import WebOptions
from offsider.web.request import Request
from tests.hostile import STRINGS
from tests.markup import Markup

HEADERS = {"host": "localhost", "accept": "text/html", "sec-fetch-site": "same-origin"}
X = {"class": "X", "args": []}


@pytest.fixture
def ask(config):
    app = WebApp(WebOptions({"main": Installation.of(config)}))

    def answer(path, query="", *, method="GET", accept="text/html"):
        return app.respond(Request(method, path, query=query, headers={**HEADERS, "accept": accept}, body=b""))

    return answer


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


def test_all_batches_are_reached_through_the_pages_of_the_list(ask, listed, empty):
    bids, seen, query = {empty() for _ in range(130)}, list[str](), "page=1"
    assert "1\N{EN DASH}25 of 130" in ask("/batches").body.decode()
    while query:
        found, pager = listed(query)
        seen += found
        query = pager["next"].partition("?")[2]
    assert (len(seen), set(seen)) == (130, bids)
    assert (pager["page"], pager["total"], len(found)) == (6, 130, 5)
    assert "This page is empty." in ask("/batches", "page=7").body.decode()


def test_batches_are_found_by_tag_with_a_statement_how_far_the_scan_got(ask, listed, empty):
    other, *found = (empty(tags=["import", tag]) for tag in ("daily", "nightly", "nightly"))
    bids, search = listed("tag=nightly")
    assert set(bids) == set(found)
    assert search == {"found": 2, "scanned": 3, "total": 3, "more": ""}
    page = ask("/batches", "tag=nightly").body.decode()
    assert "Found: 2. Scanned everything." in page
    assert f'<tr data-key="/batches/{found[0]}">' in page
    assert '<a class="tag" href="/batches?tag=nightly">nightly</a>' in ask(f"/batches/{found[0]}").body.decode()
    assert listed("tag=night")[0] == []
    assert "No batch has this tag." in ask("/batches", "tag=night").body.decode()
    assert listed("tag=+daily+")[0] == [other]


def test_a_search_by_tag_continues_in_steps(listed, empty, raw_redis, monkeypatch):
    bids = {empty(tags=["nightly"]) for _ in range(4)}
    others = {f"other{number}": 4e9 for number in range(600)}
    raw_redis.zadd("batches", others)
    monkeypatch.setattr(web, "PAGE_BUDGET_MS", 0)
    found, search = listed("tag=nightly")
    steps = 1
    while search["more"]:
        part, search = listed(search["more"].partition("?")[2])
        found += part
        steps += 1
    assert set(found) == bids
    assert (search["scanned"], search["total"]) == (604, 604)
    assert steps > 5


@pytest.mark.parametrize(
    "query, status",
    [
        (f"tag={'x' * 100}", 200),
        (f"tag={'x' * 101}", 400),
        (f"tag={'x' * 5_000}", 400),
        ("tag=a&cursor=-1", 200),
        (f"tag=a&cursor={'9' * 19}", 200),
        (f"tag=a&cursor={'9' * 100}", 200),
        (f"tag=a&cursor={'9' * 101}", 400),
        ("tag=a&seen=x", 400),
        ("tag=%00%ff%ed%a0%80", 200),
        ("page=1000000", 200),
        ("page=1000001", 400),
        ("page=-1", 400),
        ("page=1e3", 400),
        (f"page={'9' * 5_000}", 400),
    ],
)
def test_strange_parameters_are_refused_or_answered(ask, empty, query, status):
    empty(tags=["a"])
    assert ask("/batches", query).status == status


def test_hostile_tags_add_no_elements_and_their_links_find_the_batch(ask, listed, empty, raw_redis):
    def shape(page):
        return [each.attributes.get("class") == "tag" or each.tag for each in Markup(page).elements]

    plain = shape(ask(f"/batches/{empty(tags=['plain'])}").body.decode())
    raw_redis.flushdb()
    for text in dict.fromkeys(STRINGS):
        bid = empty(tags=[text])
        page = ask(f"/batches/{bid}").body.decode()
        assert shape(page) == plain
        (tag,) = (each for each in Markup(page).elements if each.attributes.get("class") == "tag")
        if tag.tag == "a":
            assert tag.attributes["href"].startswith("/batches?tag=")
            assert listed(tag.attributes["href"].partition("?")[2])[0] == [bid]
        assert ask("/batches").status == 200
        assert ask("/batches", urlencode({"tag": text}, errors="replace")).status in (200, 400)


def test_notes_mention_children_and_members_that_are_not_shown(ask, make, client, tell, monkeypatch):
    monkeypatch.setattr(web, "MOST", 2)
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
    assert "close_blocks()" in finding.actions[0]


def test_the_doctor_reports_an_open_block_on_any_page_and_too_many_batches(make, config, raw_redis, monkeypatch):
    monkeypatch.setattr("offsider.ext.batches.store.PAGE", 2)
    monkeypatch.setattr("offsider.ext.batches.doctor.MANY", 4)
    here = Installation.of(config)
    old, *others = (make() for _ in range(5))
    for batch in (old, *others):
        batch.open("token", 0)
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
