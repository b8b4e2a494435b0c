"""The pages of errors that are alike."""

from __future__ import annotations

import json

import pytest

from offsider.config.installation import Installation
from offsider.storage import error_groups
from offsider.storage.error_groups import Noted, group_of
from offsider.testing import FakeClock
from tests.hostile import STRINGS
from tests.markup import Markup
from tests.redis.web.stored import failed as stored

NOON = 1_795_262_400.0


@pytest.fixture(autouse=True)
def noon(config):
    config.clock = FakeClock(NOON)


@pytest.fixture
def failed(config):
    """failed("a1", count=3, message="no such user")"""

    def note(group, *, count=1, at=NOON - 60, name="Mail", error="ValueError", message="no", queue="low", jid="j1"):
        info = {"class": name, "error_class": error, "message": message, "queue": queue}
        error_groups.note(Installation.of(config).redis, [Noted(group, count, at, json.dumps(info), jid)])

    return note


def test_groups_are_sorted_by_time_or_count(failed, read):
    failed("01d", count=9, at=NOON - 600)
    failed("0e0", count=2, at=NOON - 60)
    assert [group["id"] for group in read("/errors")["groups"]] == ["0e0", "01d"]
    assert [group["id"] for group in read("/errors", "order=count")["groups"]] == ["01d", "0e0"]


def test_a_group_shows_error_and_times_and_links_to_its_jobs(failed, read):
    failed("a1", count=3, at=NOON - 7200, message="no such user", jid="abc")
    (group,) = read("/errors")["groups"]
    assert (group["name"], group["error_class"], group["message"], group["count"]) == (
        *("Mail", "ValueError", "no such user"),
        3,
    )
    assert group["retries_path"] == "/retries?group=a1"
    assert group["dead_path"] == "/dead?group=a1"
    assert (group["queue_path"], group["job_path"]) == ("/queues/low", "/job/abc")
    assert group["hours"][-3:] == [3, 0, 0]
    assert sum(group["hours"]) == 3


def test_a_group_links_only_to_its_own_jobs(failed, read, look, raw_redis):
    alike = [stored(n, error_class="ValueError", error_message=f"no user {n}") for n in range(3)]
    other = stored(3, error_class="ValueError", error_message="no such address")
    namesake = stored(4, error_class="ValueError", error_message="no user 4", **{"class": "Shop::SendAll"})
    for name in ("retry", "dead"):
        raw_redis.zadd(name, {raw: at for at, raw in enumerate([*alike, other, namesake])})
    group = group_of("Shop::Send", "ValueError", "no user 1")
    failed(group, name="Shop::Send", message="no user 1")
    (shown,) = read("/errors")["groups"]
    for path, to in (("/retries", shown["retries_path"]), ("/dead", shown["dead_path"])):
        assert to == f"{path}?group={group}"
        assert sorted(int(row["jid"], 16) for row in look(path, f"group={group}")["jobs"]) == [0, 1, 2]
        assert read(f"{path}/all", f"verb=delete&group={group}")["matched"] == 3
        assert read(path, f"group={group}")["labels"] == {"group": "ValueError: no user 1 (Shop::Send)"}


def test_a_group_has_a_page_with_its_whole_message(failed, ask):
    failed("a1", message="x" * 500)
    listed, alone = (Markup(ask(path).body.decode()).text for path in ("/errors", "/errors/a1"))
    assert "x" * 101 not in listed
    assert "x" * 500 in alone


def test_an_unknown_group_is_not_found(ask):
    assert ask("/errors/a9").status == 404


def test_a_group_can_be_deleted(failed, ask, read):
    failed("a1")
    failed("a2")
    question = Markup(ask("/errors/a1/delete", method="POST").body.decode()).text
    assert "Delete error group ValueError of Mail? Its jobs are kept." in question
    assert len(read("/errors")["groups"]) == 2
    answer = ask("/errors/a1/delete", method="POST", body="confirmed=yes")
    assert (answer.status, dict(answer.headers)["location"]) == (303, "/errors")
    assert [group["id"] for group in read("/errors")["groups"]] == ["a2"]


def test_deleting_a_missing_group_is_reported(ask):
    answer = ask("/errors/a1/delete", method="POST", accept="application/json")
    assert json.loads(answer.body) == {"done": "Deleted 0 error groups.", "deleted": 0}


def test_all_groups_are_deleted_after_confirmation(failed, ask, read):
    failed("a1")
    failed("a2")
    assert (
        "Delete all 2 error groups? Their jobs are kept."
        in Markup(ask("/errors/clear", method="POST", body="every=yes").body.decode()).text
    )
    assert len(read("/errors")["groups"]) == 2
    assert ask("/errors/clear", method="POST", body="every=yes&confirmed=yes").status == 303
    assert read("/errors")["groups"] == []


def test_many_groups_are_shown_in_pages(failed, read):
    for number in range(30):
        failed(f"a{number}", at=NOON - number)
    assert len(read("/errors")["groups"]) == 25
    assert [group["id"] for group in read("/errors", "page=2")["groups"]] == [f"a{number}" for number in range(25, 30)]
    assert read("/errors")["pager"]["next"]


def test_without_errors_the_page_has_a_note(ask):
    assert "No errors recorded." in Markup(ask("/errors").body.decode()).text


@pytest.mark.parametrize("query", ["order=name", "page=0", "page=1000001", "page=x"])
def test_parameters_out_of_bounds_are_refused(ask, query):
    assert ask("/errors", query).status == 400


def test_hostile_texts_are_escaped(failed, ask):
    for number, text in enumerate(STRINGS[:25]):
        failed(f"a{number}", name=text, error=text, message=text, queue=text, jid=text)
    for path in ("/errors", *(f"/errors/a{number}" for number in range(0, 25, 5))):
        answer = ask(path)
        assert answer.status == 200
        page = Markup(answer.body.decode())
        assert [each for each in page.elements if any(key.startswith("on") for key in each.attributes)] == []
        assert all(each["src"].startswith("/assets/") for each in page.all("script") + page.all("img"))
