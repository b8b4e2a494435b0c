"""The pages of retries, scheduled and dead jobs."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from tests.markup import Markup
from tests.redis.web.stored import WHEN, failed, jid, job

SETS = {"/retries": "retry", "/scheduled": "schedule", "/dead": "dead"}
JSON = "application/json"


def numbers(data):
    return sorted(int(row["jid"], 16) for row in data["jobs"])


def fill(raw_redis, name, *raws):
    raw_redis.zadd(name, {raw: WHEN + at for at, raw in enumerate(raws)})


def stored(raw_redis, name):
    return sorted(json.loads(raw)["args"][0] for raw in raw_redis.zrange(name, 0, -1))


def keys(read, path, *wanted):
    return [("key", row["key"]) for row in read(path)["jobs"] if int(row["jid"], 16) in wanted]


@pytest.fixture(params=SETS, ids=SETS.get)
def page(request, raw_redis):
    """The path of a page whose set holds thirty jobs."""
    fill(raw_redis, SETS[request.param], *(failed(number) for number in range(30)))
    return request.param


# ------------------------------------------------------------------------------------- looking


def test_a_set_is_shown_25_jobs_a_page(read, page):
    data = read(page)
    assert (data["size"], len(data["jobs"]), data["pager"]["pages"]) == (30, 25, 2)
    ends = [0, 24] if page != "/dead" else [29, 5]
    assert [int(data["jobs"][at]["jid"], 16) for at in (0, -1)] == ends
    path, _, query = data["pager"]["next"].partition("?")
    assert len(read(path, query)["jobs"]) == 5
    row = data["jobs"][0]
    assert row["at"] == WHEN + ends[0]
    assert row["error"] == {
        "class": "IOError",
        "message": f"reset by peer {ends[0]}",
        "short": f"IOError: reset by peer {ends[0]}",
    }


def test_the_first_heading_reverses_the_order(read, page):
    data = read(page)
    other = "latest" if data["order"] == "earliest" else "earliest"
    path, _, query = data["orders"][other].partition("?")
    assert read(path, query)["jobs"][0]["jid"] == jid(0 if other == "earliest" else 29)


def test_jobs_are_filtered_by_content_class_argument_error_tag_and_caller(read, raw_redis, page, look):
    odd = failed(77, tags=["vip"], error_class="KeyError", **{"class": "Other", "meta.caller_id": "web#buy"})
    raw_redis.zadd(SETS[page], {odd: WHEN})
    for query in ("text=user77", "name=Other", "argument=77", "error=KeyError", "tag=vip", "caller=web%23buy"):
        data = look(page, query)
        assert numbers(data) == [77], query
        assert data["search"] == {"found": 1, "scanned": 31, "total": 31, "more": ""}
    assert numbers(look(page, "error=peer+2&name=Shop%3A%3ASend")) == [2, *range(20, 30)]


def test_jobs_are_filtered_by_age(read, raw_redis, look):
    ended = {key: int((WHEN + 1e8) * 1000) for key in ("failed_at", "retried_at")}
    fill(raw_redis, "retry", failed(1, failed_at=1_000_000, retried_at=1_000_000), failed(2, **ended))
    assert numbers(look("/retries", "older=86400")) == [1]
    assert numbers(look("/retries", "newer=86400")) == [2]


def test_each_field_of_a_filter_can_be_removed(read, page, look):
    data = look(page, "error=IOError&argument=user7")
    assert data["filter"]["fields"] == {"argument": "user7", "error": "IOError"}
    path, _, query = data["filter"]["without"]["argument"].partition("?")
    assert read(path, query)["filter"]["fields"] == {"error": "IOError"}


def test_a_long_scan_continues_until_all_jobs_are_scanned(read, raw_redis):
    fill(raw_redis, "retry", *(failed(number) for number in range(2_000)))
    seen: set[str] = set()
    path, query, parts = "/retries", "error=IOError", 0
    while query:
        data = read(path, query)
        assert len(data["jobs"]) < 1_500
        seen.update(row["jid"] for row in data["jobs"])
        path, _, query = data["search"]["more"].partition("?")
        parts += 1
    assert len(seen) == 2_000
    assert parts > 1
    assert data["search"]["scanned"] == data["search"]["total"] == 2_000
    assert data["search"]["found"] >= 2_000


def test_facets_show_their_sample(ask, page):
    assert "In the 25 jobs on this page" in Markup(ask(page).body.decode()).text
    assert "In the first 30 matches" in Markup(ask(page, "error=IOError").body.decode()).text


def test_facets_link_to_filters(read, look, raw_redis):
    fill(raw_redis, "retry", failed(1, tags=["vip"]), failed(2), failed(3, error_class="KeyError"))
    facets = {each["field"]: each["values"] for each in read("/retries")["facets"]}
    assert [(each["value"], each["count"]) for each in facets["error"]] == [("IOError", 2), ("KeyError", 1)]
    path, _, query = facets["error"][1]["path"].partition("?")
    assert numbers(look(path, query)) == [3]


@pytest.mark.parametrize(
    "query", ["page=0", "page=9999999", "order=up", "older=x", "tag=" + "t" * 101, "name=x&cursor=" + "1" * 501]
)
def test_parameters_out_of_bounds_are_refused(ask, page, query):
    assert ask(page, query).status == 400


def test_an_invalid_cursor_starts_from_the_beginning(read, page, look):
    assert len(look(page, "error=IOError&cursor=nonsense")["jobs"]) == 30


def test_any_score_and_any_bytes_can_be_shown(ask, read, raw_redis, page):
    raw_redis.zadd(SETS[page], {b"\xffno job": "inf", b"[]": "-inf", failed(90): 1e300, failed(91): -5})
    rows = read(page, "page=2")["jobs"] + read(page)["jobs"]
    assert sum(row["malformed"] for row in rows) == 2
    for row in rows:
        if row["malformed"] or row["at"] is None:
            assert ask(row["path"]).status == 200


# ---------------------------------------------------------------------------------- chosen jobs


def test_selected_jobs_are_retried(ask, read, raw_redis):
    fill(raw_redis, "retry", *(failed(number) for number in range(5)))
    body = urlencode([*keys(read, "/retries", 1, 3), ("key", "1.5|gone")])
    answer = ask("/retries/selected/retry", method="POST", body=body, accept=JSON)
    assert json.loads(answer.body) == {
        "done": "Enqueued 2 jobs. 1 job was already gone.",
        "done_to": 2,
        "gone": 1,
        "refused": [],
    }
    assert stored(raw_redis, "retry") == [0, 2, 4]
    pushed = [json.loads(raw) for raw in raw_redis.lrange("queue:mail", 0, -1)]
    assert {payload["args"][0]: payload["retry_count"] for payload in pushed} == {1: 0, 3: 0}


def test_malformed_jobs_are_not_retried_and_reported(ask, read, raw_redis):
    raw_redis.zadd("dead", {b"no job": WHEN})
    body = urlencode([("key", read("/dead")["jobs"][0]["key"])])
    answer = json.loads(ask("/dead/selected/retry", method="POST", body=body, accept=JSON).body)
    assert (answer["done_to"], len(answer["refused"])) == (0, 1)
    assert "1 job could not be changed: malformed payload" in answer["done"]
    assert raw_redis.zcard("dead") == 1


def test_selected_jobs_are_killed(ask, read, raw_redis):
    fill(raw_redis, "retry", failed(1), failed(2))
    assert ask("/retries/selected/kill", method="POST", body=urlencode(keys(read, "/retries", 2))).status == 303
    assert (stored(raw_redis, "retry"), stored(raw_redis, "dead")) == ([1], [2])


def test_selected_jobs_are_enqueued_before_they_are_due(ask, read, raw_redis):
    fill(raw_redis, "schedule", job(1), job(2))
    ask("/scheduled/selected/add_to_queue", method="POST", body=urlencode(keys(read, "/scheduled", 1)))
    assert stored(raw_redis, "schedule") == [2]
    assert raw_redis.llen("queue:mail") == 1


def test_selected_jobs_are_deleted_after_confirmation(ask, read, raw_redis, page):
    chosen = [("key", row["key"]) for row in read(page)["jobs"][:2]]
    asked = ask(f"{page}/selected/delete", method="POST", body=urlencode(chosen))
    place = {"/retries": "Retries", "/scheduled": "Scheduled", "/dead": "Dead"}[page]
    assert f"Permanently delete the selected jobs in {place} (2)?" in Markup(asked.body.decode()).text
    form = Markup(asked.body.decode()).form(lambda form: "/selected/delete" in form.action)
    assert raw_redis.zcard(SETS[page]) == 30
    assert ask(form.action, method="POST", body=urlencode(form.fields)).status == 303
    assert raw_redis.zcard(SETS[page]) == 28


def test_selected_jobs_move_to_the_quarantine(ask, read, raw_redis, page):
    chosen = [("key", row["key"]) for row in read(page)["jobs"][:2]]
    ask(f"{page}/selected/quarantine", method="POST", body=urlencode(chosen))
    assert raw_redis.zcard(SETS[page]) == 28
    assert {row["was_in"] for row in read("/quarantine")["jobs"]} == {SETS[page]}


def test_each_page_has_its_actions(ask, read, page):
    verbs = {
        "/retries": ["retry", "kill", "quarantine", "delete"],
        "/scheduled": ["add_to_queue", "quarantine", "delete"],
        "/dead": ["retry", "quarantine", "delete"],
    }
    assert read(page)["verbs"] == verbs[page]
    every = {"retry", "kill", "quarantine", "delete", "add_to_queue"}
    for verb in every - set(verbs[page]):
        assert ask(f"{page}/all/{verb}", method="POST").status == 404
        assert ask(f"{page}/selected/{verb}", method="POST").status == 404


def test_read_only_pages_show_no_buttons(ask_with, page):
    shown = ask_with(read_only=True)(page).body
    assert b"formaction" not in shown
    assert f'href="{page}/all'.encode() not in shown


# ------------------------------------------------------------------------------------- all jobs


def test_an_action_on_all_jobs_shows_their_number_first(ask, read, raw_redis):
    fill(raw_redis, "retry", *(failed(number) for number in range(30)))
    asked = read("/retries/all", "verb=retry")
    assert (asked["matched"], list(asked["actions"])) == (30, ["retry"])
    assert "30" in Markup(ask("/retries/all", "verb=retry").body.decode()).text
    answer = ask("/retries/all/retry", method="POST", body="every=yes", accept=JSON)
    assert json.loads(answer.body)["done_to"] == 30
    assert (raw_redis.zcard("retry"), raw_redis.llen("queue:mail")) == (0, 30)


def test_removing_all_offers_quarantine_first_and_deletion(ask, page):
    markup = Markup(ask(f"{page}/all", "verb=delete&error=IOError").body.decode())
    buttons = [button for button in markup.all("button") if button["formaction"].startswith(page)]
    assert [button["formaction"] for button in buttons] == [f"{page}/all/quarantine", f"{page}/all/delete"]


def test_an_action_affects_only_matching_jobs(ask, read, raw_redis, page):
    asked = read(f"{page}/all", "verb=delete&error=peer+1")
    assert (asked["matched"], asked["complete"], asked["total"]) == (11, True, 30)
    ask(f"{page}/all/quarantine", method="POST", body="error=peer+1")
    assert raw_redis.zcard(SETS[page]) == 19
    ask(f"{page}/all/delete", method="POST", body="error=peer+2")
    assert raw_redis.zcard(SETS[page]) == 8


def test_all_jobs_are_killed_or_deleted(ask, config, raw_redis):
    reported = []
    config.death_handlers.append(lambda payload, error: reported.append(repr(error)))
    fill(raw_redis, "retry", *(failed(number) for number in range(5)))
    ask("/retries/all/kill", method="POST", body="every=yes")
    assert reported == ["JobKilled('killed in the web UI')"] * 5
    assert (raw_redis.zcard("retry"), raw_redis.zcard("dead")) == (0, 5)
    ask("/dead/all/delete", method="POST", body="every=yes")
    assert raw_redis.zcard("dead") == 0


def test_a_huge_number_does_not_break_a_page(ask, read, raw_redis):
    raw_redis.zadd("retry", {failed(1).replace(b'"retry_count": 1', b'"retry_count": ' + b"9" * 400): WHEN})
    page = ask("/retries")
    assert page.status == 200
    assert ask(read("/retries")["jobs"][0]["path"]).status == 200
