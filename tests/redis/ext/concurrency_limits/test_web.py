"""The tab of concurrency limits in the pages."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.ext.concurrency_limits import store, web
from offsider.ext.concurrency_limits.store import Names
from offsider.inspector import Queue
from offsider.web.app import WebApp
from offsider.web.options import WebOptions
from offsider.web.request import Request
from tests.hostile import STRINGS

HEADERS = {"host": "localhost", "accept": "text/html", "sec-fetch-site": "same-origin"}
NAME = "<b>Hard</b>"
PATH = "/limits/%3Cb%3EHard%3C%2Fb%3E"


@pytest.fixture
def ask(config):
    app = WebApp(WebOptions({"main": Installation.of(config)}))

    def answer(path, query="", *, method="GET", accept="text/html", body=""):
        form = {"content-type": "application/x-www-form-urlencoded"} if body else {}
        headers = {**HEADERS, **form, "accept": accept}
        return app.respond(Request(method, path, query=query, headers=headers, body=body.encode()))

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


@pytest.fixture
def tenants(redis, raw_redis):
    """A class with 60 keys that have held jobs; the last one has two."""
    names = Names(redis.keys)
    groups = [f"Export[tenant {number:02}]" for number in range(60)]
    raw_redis.sadd(names.active, *groups)
    for group in [*groups, groups[-1]]:
        raw_redis.lpush(names.held(group), encode({"class": "Export", "args": [], "jid": "a", "queue": "default"}))
    return groups


def texts(answer, title):
    """The first cells of a table."""
    data = json.loads(answer.body)
    (table,) = (each for each in data["blocks"] if each.get("title") == title)
    return [row[0]["text"] for row in table["rows"]]


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


def test_all_classes_are_reached_through_pages(ask, redis, config):
    names = [f"Job{number:03}" for number in range(130)]
    store.declare(redis, dict.fromkeys(names, 3), {}, config.clock.now())
    seen, path = list[str](), "/limits"
    assert "1\N{EN DASH}25 of 130" in ask("/limits").body.decode()
    while path:
        answer = ask(*path.split("?"), accept="application/json")
        seen += texts(answer, "Concurrency limits")
        path = json.loads(answer.body)["pager"]["next"]
    assert seen == names


@pytest.mark.parametrize(
    "text, found",
    [("Hard", [NAME]), ("b>", [NAME]), ("tenant 07", ["Export"]), ("xport", ["Export"]), ("hard", []), ("*", [])],
)
def test_classes_are_found_by_a_part_of_their_name_or_of_a_key(ask, busy, tenants, text, found):
    query = urlencode({"name": text})
    assert texts(ask("/limits", query, accept="application/json"), "Concurrency limits") == found
    assert ("No class or key has this name." in ask("/limits", query).body.decode()) == (not found)


def test_the_sums_of_a_class_are_those_of_all_its_keys_whatever_the_filter(ask, tenants):
    data = json.loads(ask("/limits", "name=tenant+07", accept="application/json").body)
    assert [cell["value"] for cell in data["blocks"][0]["rows"][0][2:4]] == [0, 61]


def test_all_keys_of_a_class_are_reached_through_pages_the_one_with_most_held_jobs_first(ask, tenants):
    seen = list[str]()
    for number in (1, 2, 3):
        seen += texts(ask("/limits/Export", f"page={number}", accept="application/json"), "Keys")
    assert seen == [tenants[-1], *tenants[:-1]]
    assert "51\N{EN DASH}60 of 60" in ask("/limits/Export", "page=3").body.decode()


def test_keys_of_a_class_are_found_by_a_part_of_them(ask, tenants):
    assert texts(ask("/limits/Export", "key=t+07", accept="application/json"), "Keys") == [tenants[7]]
    page = ask("/limits/Export", "key=Export").body.decode()
    assert "No key contains this text." in page
    assert 'name="key" maxlength="100" placeholder="Key" value="Export"' in page
    assert 'name="key"' not in ask("/limits/Nobody").body.decode()


def test_hostile_filters_of_limits_are_answered(ask, busy, tenants):
    for text in STRINGS:
        for path, field in (("/limits", "name"), ("/limits/Export", "key")):
            assert ask(path, urlencode({field: text}, errors="surrogatepass")).status in (200, 400)
    for path in ("/limits", "/limits/Export"):
        for query in ("page=0", f"page={'9' * 400}", f"name={'x' * 101}&key={'x' * 101}"):
            assert ask(path, query).status == 400


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
    assert post(ask, "quarantine", "every=yes") == "Quarantined: 2"
    raw_redis.lpush(Names(redis.keys).held(NAME), encode({"class": NAME, "args": [], "jid": "c"}))
    assert post(ask, "delete", "every=yes") == "Deleted: 1"
    assert limits.find(NAME).held == 0


def test_a_class_without_a_limit_but_with_held_jobs_has_a_page(ask, busy, limits, redis):
    store.declare(redis, {NAME: 0}, {}, 0)
    assert "none" in ask(PATH).body.decode()


def test_the_page_of_a_job_shows_the_limit_of_its_class():
    assert web.job_facts({"class": "Hard", "concurrency_limit": 3})["Concurrency limit"].path == "/limits/Hard"
    assert web.job_facts({"class": "Hard"}) == {}
