"""The pages of errors that are alike."""

from __future__ import annotations

import json

import pytest

from offsider.storage import error_groups
from offsider.storage.error_groups import Noted
from offsider.testing import FakeClock
from tests.hostile import STRINGS
from tests.markup import Markup

NOON = 1_795_262_400.0


@pytest.fixture(autouse=True)
def noon(config):
    config.clock = FakeClock(NOON)


@pytest.fixture
def failed(config):
    """failed("a1", count=3, message="no such user")"""

    def note(group, *, count=1, at=NOON - 60, name="Mail", error="ValueError", message="no", queue="low", jid="j1"):
        info = {"class": name, "error_class": error, "message": message, "queue": queue}
        error_groups.note(config.shared_redis(), [Noted(group, count, at, json.dumps(info), jid)])

    return note


def test_groups_stand_by_when_they_were_last_seen_or_by_how_many_there_are(failed, read):
    failed("01d", count=9, at=NOON - 600)
    failed("0e0", count=2, at=NOON - 60)
    assert [group["id"] for group in read("/errors")["groups"]] == ["0e0", "01d"]
    assert [group["id"] for group in read("/errors", "order=count")["groups"]] == ["01d", "0e0"]


def test_a_group_says_what_and_when_and_leads_to_its_jobs(failed, read):
    failed("a1", count=3, at=NOON - 7200, message="no such user", jid="abc")
    (group,) = read("/errors")["groups"]
    assert (group["name"], group["error_class"], group["message"], group["count"]) == (
        *("Mail", "ValueError", "no such user"),
        3,
    )
    assert group["retries_path"] == "/retries?name=Mail&error=ValueError"
    assert group["dead_path"] == "/dead?name=Mail&error=ValueError"
    assert (group["queue_path"], group["job_path"]) == ("/queues/low", "/job/abc")
    assert group["hours"][-3:] == [3, 0, 0]
    assert sum(group["hours"]) == 3


def test_a_group_has_a_page_with_its_whole_message(failed, ask):
    failed("a1", message="x" * 500)
    listed, alone = (Markup(ask(path).body.decode()).text for path in ("/errors", "/errors/a1"))
    assert "x" * 101 not in listed
    assert "x" * 500 in alone


def test_a_group_that_nobody_knows_is_not_found(ask):
    assert ask("/errors/a9").status == 404


def test_a_group_can_be_forgotten(failed, ask, read):
    failed("a1")
    failed("a2")
    answer = ask("/errors/a1/delete", method="POST")
    assert (answer.status, dict(answer.headers)["location"]) == (303, "/errors")
    assert [group["id"] for group in read("/errors")["groups"]] == ["a2"]


def test_who_deletes_what_is_gone_is_told(ask):
    answer = ask("/errors/a1/delete", method="POST", accept="application/json")
    assert json.loads(answer.body) == {"done": "Deleted: 0", "deleted": 0}


def test_all_groups_are_forgotten_once_somebody_is_sure(failed, ask, read):
    failed("a1")
    failed("a2")
    assert "Delete all errors?" in Markup(ask("/errors/clear", method="POST").body.decode()).text
    assert len(read("/errors")["groups"]) == 2
    assert ask("/errors/clear", method="POST", body="confirmed=yes").status == 303
    assert read("/errors")["groups"] == []


def test_many_groups_come_in_pages(failed, read):
    for number in range(30):
        failed(f"a{number}", at=NOON - number)
    assert len(read("/errors")["groups"]) == 25
    assert [group["id"] for group in read("/errors", "page=2")["groups"]] == [f"a{number}" for number in range(25, 30)]
    assert read("/errors")["pager"]["next"]


def test_without_errors_the_page_says_so(ask):
    assert "No job has failed lately." in Markup(ask("/errors").body.decode()).text


@pytest.mark.parametrize("query", ["order=name", "page=0", "page=1000001", "page=x"])
def test_what_is_out_of_bounds_is_refused(ask, query):
    assert ask("/errors", query).status == 400


def test_hostile_texts_are_text(failed, ask):
    for number, text in enumerate(STRINGS[:25]):
        failed(f"a{number}", name=text, error=text, message=text, queue=text, jid=text)
    for path in ("/errors", *(f"/errors/a{number}" for number in range(0, 25, 5))):
        answer = ask(path)
        assert answer.status == 200
        page = Markup(answer.body.decode())
        assert [each for each in page.elements if any(key.startswith("on") for key in each.attributes)] == []
        assert all(each["src"].startswith("/assets/") for each in page.all("script") + page.all("img"))
