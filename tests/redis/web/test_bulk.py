"""Bulk actions: counted exactly, confirmed, and applied to the counted jobs."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from offsider.web import bulk
from tests.markup import Markup
from tests.redis.web.stored import failed, job, push

JSON = "application/json"


@pytest.fixture
def counted(read):
    """The page that asks, after all parts of the count: counted("/retries/all", "verb=retry")."""

    def data(path, query=""):
        part = read(path, query)
        while part["more"]:
            assert part["matched"] is None
            path, _, query = part["more"].partition("?")
            part = read(path, query)
        return part

    return data


@pytest.fixture
def slowly(monkeypatch):
    """Counting and acting take many requests."""
    monkeypatch.setattr(bulk, "COUNT_MS", 0)
    monkeypatch.setattr(bulk, "ACT_MS", 0)


def posted(ask, path, data, **fields):
    body = urlencode({**data["filter"]["fields"], "counted": data["counted"], **fields})
    return json.loads(ask(path, method="POST", body=body, accept=JSON).body)


def test_a_large_set_is_counted_exactly_before_the_question(ask, read, raw_redis, counted, slowly):
    raw_redis.zadd("retry", {failed(n, **{"class": "Odd" if n % 3 else "Mail"}): n for n in range(3_000)})
    first = read("/retries/all", "verb=retry&name=Mail")
    assert (first["complete"], first["matched"]) == (False, None)
    shown = Markup(ask("/retries/all", "verb=retry&name=Mail").body.decode())
    assert "Retry now" not in shown.text
    [refresh] = [meta["content"] for meta in shown.all("meta") if meta["http-equiv"]]
    assert refresh.startswith("0; url=/retries/all?name=Mail&verb=retry&counted=")
    assert counted("/retries/all", "verb=retry&name=Mail")["matched"] == 1_000


@pytest.mark.timeout(60)
def test_a_count_without_early_matches_completes(raw_redis, counted, slowly):
    raw_redis.zadd("retry", {failed(n): n for n in range(3_000)})
    assert counted("/retries/all", "verb=retry&name=Nothing")["matched"] == 0


def test_another_site_cannot_start_a_count(ask, raw_redis):
    raw_redis.zadd("retry", {failed(1): 1})
    assert ask("/retries/all", "verb=retry", sec_fetch_site="cross-site").status == 404
    assert not raw_redis.keys("offsider:counted:*")
    assert ask("/retries/all", "verb=retry", sec_fetch_site="same-origin").status == 200
    assert len(raw_redis.keys("offsider:counted:*")) == 1


def test_the_live_refresh_does_not_count_again(ask, raw_redis):
    raw_redis.zadd("retry", {failed(1): 1})
    assert b"data-live-button" in ask("/retries").body
    assert b"data-live-button" not in ask("/retries/all", "verb=retry").body


def test_the_action_affects_only_counted_jobs_and_reports_changed_ones(ask, raw_redis, counted):
    raw_redis.zadd("retry", {failed(n): n for n in range(100)})
    data = counted("/retries/all", "verb=retry&error=IOError")
    raw_redis.zrem("retry", *(failed(n) for n in range(22)))
    raw_redis.zadd("retry", {failed(n): n for n in range(500, 510)})
    reported = posted(ask, "/retries/all/retry", data)
    assert reported["done"] == "Enqueued 78 jobs. 22 jobs changed after the count and were skipped."
    assert (reported["done_to"], reported["changed"], reported["refused"], reported["finished"]) == (78, 22, 0, True)
    assert (raw_redis.zcard("retry"), raw_redis.llen("queue:mail")) == (10, 78)


def test_refused_jobs_are_reported_apart_from_changed_ones(ask, raw_redis, counted):
    raw_redis.zadd("dead", {failed(1): 1, b"no job": 2, b"no job either": 3})
    reported = posted(ask, "/dead/all/retry", counted("/dead/all", "verb=retry"))
    assert reported["done"] == "Enqueued 1 job. 2 jobs could not be changed."


@pytest.mark.parametrize("verb", ["delete", "quarantine"])
def test_clearing_a_queue_keeps_jobs_pushed_after_the_count(ask, raw_redis, counted, verb):
    push(raw_redis, "mail", *(job(n) for n in range(100)))
    data = counted("/queues/mail/all")
    assert data["matched"] == 100
    raw_redis.rpop("queue:mail", 10)
    push(raw_redis, "mail", job(500))
    reported = posted(ask, f"/queues/mail/all/{verb}", data)
    assert (reported["done_to"], reported["changed"]) == (90, 10)
    assert raw_redis.lrange("queue:mail", 0, -1) == [job(500)]
    assert raw_redis.sismember("queues", "mail")


def test_a_long_action_continues_with_a_button_and_reports_the_total(ask, raw_redis, counted, slowly):
    raw_redis.zadd("retry", {failed(n): n for n in range(2_500)})
    data = counted("/retries/all", "verb=kill")
    answer, parts = ask("/retries/all/kill", method="POST", body=f"counted={data['counted']}"), 1
    while (to := dict(answer.headers)["location"]) != "/retries":
        path, _, query = to.partition("?")
        shown = Markup(ask(path, query).body.decode())
        assert "of 2,500 done" in shown.text
        form = shown.form(lambda form: ("counted", data["counted"]) in form.fields)
        [button] = [each for each in shown.all("button") if each["formaction"]]
        answer = ask(button["formaction"], method="POST", body=urlencode(form.fields))
        parts += 1
    assert parts > 1
    assert raw_redis.zcard("dead") == 2_500


def test_a_form_submitted_twice_acts_once(ask, raw_redis, counted):
    raw_redis.zadd("dead", {failed(1): 1})
    data = counted("/dead/all", "verb=delete")
    posted(ask, "/dead/all/quarantine", data)
    ask("/quarantine/all/restore", method="POST", body="every=yes")
    assert posted(ask, "/dead/all/quarantine", data)["done_to"] == 1
    assert raw_redis.zcard("dead") == 1


def test_an_expired_count_does_nothing(ask, raw_redis):
    raw_redis.zadd("dead", {failed(1): 1})
    assert ask("/dead/all/delete", method="POST", body="counted=0123").status == 404
    assert ask("/dead/all", "verb=delete&counted=0123").status == 404
    assert raw_redis.zcard("dead") == 1


def test_without_permission_there_is_no_count_and_no_question(ask_with, raw_redis):
    raw_redis.zadd("retry", {failed(1): 1})
    assert ask_with(read_only=True)("/retries/all", "verb=retry").status == 403
    may = ask_with(authorize=lambda request, action: action != "jobs.delete")
    offered = Markup(may("/retries/all", "verb=delete").body.decode()).all("button")
    assert [button["formaction"] for button in offered if button["formaction"]] == ["/retries/all/quarantine"]
    assert ask_with(authorize=lambda request, action: action == "page")("/retries/all", "verb=kill").status == 403
    assert len(raw_redis.keys("offsider:counted:*")) == 1
