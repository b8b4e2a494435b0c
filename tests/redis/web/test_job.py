"""The page of one job."""

from __future__ import annotations

import json

import pytest

from offsider.config.web_tab import WebLink, WebTab
from offsider.core.backtrace import compress
from offsider.core.malformed import listable
from tests.markup import Markup
from tests.redis.web.stored import WHEN, failed, jid, job, push
from tests.waiting import wait_for

JSON = "application/json"


@pytest.fixture
def running(raw_redis):
    """Job 7 runs."""
    raw_redis.sadd("processes", "h:7:abc")
    raw_redis.hset("h:7:abc", mapping={"info": json.dumps({"pid": 7}), "busy": 1, "beat": WHEN, "quiet": "false"})
    work = json.dumps({"queue": "mail", "payload": job(7).decode(), "run_at": int(WHEN)})
    raw_redis.hset("h:7:abc:work", "tid1", work)


def row_of(read, path, number):
    (row,) = [row for row in read(path)["jobs"] if row["jid"] == jid(number)]
    return row


def found(read, number):
    """The page of a job by its id; a busy machine may need several looks."""
    return wait_for(lambda: (data := read(f"/job/{jid(number)}")).get("where") and data)


# ------------------------------------------------------------------------------------- looking


def test_a_failed_job_shows_all_its_data(ask, read, raw_redis):
    lines = ["/app/hard_job.py:7 in perform", "/app/bank.py:3 in charge"]
    more = {"tags": ["vip"], "error_backtrace": compress(lines, 8), "bid": "b-1", "lang": {"x": 1}}
    raw_redis.zadd("retry", {failed(1, kwargs={"now": True}, **{"meta.caller_id": "web#buy", **more}): WHEN})
    data = read(row_of(read, "/retries", 1)["path"])
    assert json.loads(data["args"]) == [1, {"email": "user1@example.com"}]
    assert json.loads(data["kwargs"]) == {"now": True}
    assert data["args"].startswith("[\n  1,\n")
    assert (data["error"]["class"], data["error_message"]) == ("IOError", "reset by peer 1")
    assert data["backtrace"].splitlines() == lines
    assert (data["tags"], data["caller"], data["retry_count"]) == (["vip"], "web#buy", 1)
    assert data["at"] == data["created_at"] == data["failed_at"] == data["retried_at"] == WHEN
    assert {"name": "lang", "value": '{"x": 1}'} in data["fields"]
    assert {"name": "meta.caller_id", "value": "web#buy"} in data["context"]
    words = Markup(ask(data["path"]).body.decode()).text
    for word in ("Shop::Send", "bank.py:3", "reset by peer 1", "b-1", "vip", "web#buy", jid(1)):
        assert word in words


def test_the_page_links_to_jobs_of_the_same_class_and_error(read, look, raw_redis):
    raw_redis.zadd("retry", {failed(1): WHEN, failed(2): WHEN, failed(3, error_class="KeyError"): WHEN})
    raw_redis.zadd("dead", {failed(4): WHEN})
    data = read(row_of(read, "/retries", 1)["path"])
    counts = {}
    for link in data["same_error"]:
        path, _, query = link["path"].partition("?")
        counts[link["title"]] = len(look(path, query)["jobs"])
    assert counts == {"Retries": 2, "Scheduled": 0, "Dead": 1}
    path, _, query = data["same_class"][0]["path"].partition("?")
    assert len(look(path, query)["jobs"]) == 3


def test_the_page_lists_recent_attempts(ask, read, raw_redis):
    stored = {"number": 2, "at": WHEN, "host": "h:7", "error_class": "KeyError", "error_message": "x", "duration": 0.5}
    raw_redis.zadd("retry", {failed(1): WHEN})
    raw_redis.lpush(f"offsider:attempts:{jid(1)}", json.dumps(stored))
    (attempt,) = read(row_of(read, "/retries", 1)["path"])["attempts"]
    assert (attempt["number"], attempt["host"], attempt["duration_seconds"]) == (2, "h:7", 0.5)
    assert "Recent attempts" in ask(row_of(read, "/retries", 1)["path"]).body.decode()


def test_a_job_is_found_by_its_id_in_every_place(ask, read, raw_redis, running):
    push(raw_redis, "mail", job(1))
    raw_redis.zadd("retry", {failed(2): WHEN})
    raw_redis.zadd("schedule", {job(3): WHEN})
    raw_redis.zadd("dead", {failed(4): WHEN})
    places = {1: "queue:mail", 2: "retry", 3: "schedule", 4: "dead", 7: "busy"}
    assert {number: found(read, number)["where"] for number in places} == places
    assert found(read, 7)["running"]["process"] == "h:7:abc"
    assert "h:7:abc" in ask("/job/busy/" + jid(7)).body.decode()
    gone = wait_for(lambda: (answer := ask("/job/nothing")).status == 404 and answer)
    assert "It may have finished, or been deleted" in gone.body.decode()


def test_a_moved_job_is_found_by_its_old_address(read, raw_redis):
    raw_redis.zadd("retry", {failed(1): WHEN})
    path = row_of(read, "/retries", 1)["path"]
    raw_redis.delete("retry")
    push(raw_redis, "mail", failed(1))
    data = wait_for(lambda: (answer := read(path)).get("where") and answer)
    assert (data["where"], data["position"]) == ("queue:mail", 0)


def test_a_job_that_takes_long_to_find_is_searched_for(ask, read, raw_redis):
    raw_redis.zadd("retry", {failed(number): WHEN for number in range(20_000)})
    for start in range(100, 400_100, 20_000):
        push(raw_redis, "mail", *(job(number) for number in range(start, start + 20_000)))
    data = read(f"/job/{jid(400_099)}")
    assert "search" in data or data["jid"] == jid(400_099)


def test_long_texts_are_cut_unless_all_is_requested(ask, read, raw_redis):
    raw_redis.zadd("dead", {failed(1, args=["x" * 300_000], error_message="y" * 150_000): WHEN})
    path = row_of(read, "/dead", 1)["path"]
    short = read(path)
    assert (len(short["args"]), len(short["error_message"])) == (100_001, 100_001)
    assert short["cut"]
    all_path, _, query = short["all_path"].partition("?")
    assert all_path in ask(path).body.decode()
    whole = read(all_path, query)
    assert not whole["cut"]
    assert len(json.loads(whole["args"])[0]) == 300_000


def test_malformed_jobs_have_a_page(read, raw_redis):
    raw_redis.zadd("dead", {b"\xff<b>no job": WHEN})
    (row,) = read("/dead")["jobs"]
    data = read(row["path"])
    assert data["malformed"]
    assert data["args"].endswith("<b>no job")


@pytest.mark.parametrize("score", [1e300, -1e300, "inf", 253_402_300_800])
def test_a_job_of_another_client_may_have_any_score(ask, read, raw_redis, score):
    """A calendar ends with the year 9999, and a score of Redis does not."""
    raw_redis.zadd("schedule", {job(1): score})
    path = row_of(read, "/scheduled", 1)["path"]
    assert read(path)["jid"] == jid(1)
    assert ask(path).status == 200


def test_a_wrapper_is_shown_as_the_bytes_inside(read, raw_redis):
    raw_redis.zadd("dead", {listable(b"<b>no job", 1.0): WHEN})
    (row,) = read("/dead")["jobs"]
    data = read(row["path"])
    assert (data["malformed"], data["args"], data["size_bytes"]) == (True, "<b>no job", 9)
    assert data["error"]["class"] == "offsider.MalformedPayload"


def test_redacted_arguments_are_nowhere_on_the_page(ask_with, read, raw_redis):
    raw_redis.zadd("dead", {failed(1, kwargs={"card": "4242"}): WHEN})
    path = row_of(read, "/dead", 1)["path"]
    page = ask_with(redact=lambda name, args, kwargs: (["[hidden]"], {}))(path).body.decode()
    assert "user1@example.com" not in page
    assert "4242" not in page
    assert "[hidden]" in page


def test_copies_of_arguments_and_facts_of_extensions_are_redacted(config, ask_with, read, raw_redis):
    def facts(payload):
        return {"Order": f"{payload['args']} {payload['kwargs']}"}

    config.add_web_tab(WebTab("shop", "Shop", "/shop", job_facts=facts))
    copies = {
        "display_args": ["4242"],
        "unique_args": ["4242"],
        "lock_args": ["4242"],
        "cattr": {"card": "4242"},
        "unique_digest": "d-1",
    }
    raw_redis.zadd("dead", {failed(1, kwargs={"card": "4242"}, **copies): WHEN})
    path = row_of(read, "/dead", 1)["path"]
    assert "4242" in ask_with()(path).body.decode()
    page = ask_with(redact=lambda name, args, kwargs: (["[hidden]"], {}))(path).body.decode()
    assert "4242" not in page
    assert "user1@example.com" not in page
    assert "d-1" in page


def test_extensions_add_facts(config, ask_with, raw_redis):
    def facts(payload):
        return {"Order": WebLink(str(payload["args"][0]), "/shop/1")}

    config.add_web_tab(WebTab("shop", "Shop", "/shop", job_facts=facts))
    raw_redis.zadd("dead", {failed(4711): WHEN, b"no job": WHEN + 1})
    ask = ask_with()
    rows = json.loads(ask("/dead", accept=JSON).body)["jobs"]
    (page,) = [ask(row["path"]).body.decode() for row in rows if not row["malformed"]]
    assert '<a href="/shop/1">4711</a>' in page
    assert ask(next(row["path"] for row in rows if row["malformed"])).status == 200


# ------------------------------------------------------------------------------------- actions


def test_a_job_is_retried_killed_and_deleted_from_its_page(ask, read, raw_redis):
    raw_redis.zadd("retry", {failed(number): WHEN + number for number in range(1, 5)})
    actions = {number: row_of(read, "/retries", number) for number in range(1, 5)}
    done = ask(f"{actions[1]['path']}/retry", method="POST")
    assert (done.status, dict(done.headers)["location"]) == (303, "/retries")
    ask(f"{actions[2]['path']}/kill", method="POST")
    ask(f"{actions[3]['path']}/quarantine", method="POST")
    question = Markup(ask(f"{actions[4]['path']}/delete", method="POST").body.decode()).text
    assert f"Permanently delete job Shop::Send ({jid(4)})?" in question
    ask(f"{actions[4]['path']}/delete", method="POST", body="confirmed=yes")
    assert raw_redis.zcard("retry") == 0
    assert (raw_redis.llen("queue:mail"), raw_redis.zcard("dead"), read("/quarantine")["size"]) == (1, 1, 1)


def test_the_actions_depend_on_the_location(read, raw_redis, running):
    push(raw_redis, "mail", job(1))
    raw_redis.zadd("retry", {failed(2): WHEN})
    raw_redis.zadd("schedule", {job(3): WHEN})
    raw_redis.zadd("dead", {failed(4): WHEN})
    offered = {number: set(found(read, number)["actions"]) for number in (1, 2, 3, 4, 7)}
    assert offered == {
        1: {"quarantine", "delete"},
        2: {"retry", "kill", "quarantine", "delete", "reschedule"},
        3: {"add_to_queue", "quarantine", "delete", "reschedule"},
        4: {"retry", "quarantine", "delete"},
        7: set(),
    }


def test_a_job_in_a_queue_is_deleted_or_quarantined(ask, read, raw_redis):
    push(raw_redis, "mail", job(1), job(2), job(3))
    first, second, third = (row["path"] for row in read("/queues/mail")["jobs"])
    assert dict(ask(f"{second}/quarantine", method="POST").headers)["location"] == "/queues/mail"
    ask(f"{third}/delete", method="POST", body="confirmed=yes")
    assert [row["path"] for row in read("/queues/mail")["jobs"]] == [first]


def test_an_impossible_action_is_reported(ask, read, raw_redis):
    raw_redis.zadd("dead", {b"no job": WHEN, failed(1): WHEN + 1})
    good, bad = (row["path"] for row in read("/dead")["jobs"])
    assert ask(f"{bad}/retry", method="POST").status == 400
    assert ask(f"{good}/kill", method="POST").status == 400
    assert ask(f"{good}/reschedule", method="POST", body="minutes=5").status == 404
    raw_redis.delete("dead")
    assert ask(f"{good}/retry", method="POST").status == 404


@pytest.mark.parametrize("path, name", [("/retries", "retry"), ("/scheduled", "schedule")])
def test_a_job_is_rescheduled(ask, read, raw_redis, path, name):
    raw_redis.zadd(name, {failed(1): WHEN})
    job_path = row_of(read, path, 1)["path"]
    answer = ask(f"{job_path}/reschedule", method="POST", body="at=2030-01-02T03%3A04", accept=JSON)
    assert json.loads(answer.body)["at"] == 1_893_553_440
    assert raw_redis.zrange(name, 0, -1, withscores=True)[0][1] == 1_893_553_440
    again = row_of(read, path, 1)["path"]
    before = raw_redis.time()[0]
    assert ask(f"{again}/reschedule", method="POST", body="at=2030-01-02T03%3A04&minutes=60").status == 303
    assert 3_500 < raw_redis.zrange(name, 0, -1, withscores=True)[0][1] - before < 4_000


@pytest.mark.parametrize(
    "body", ["", "at=", "at=soon", "minutes=-5", "minutes=9999999", "at=1960-01-01", "at=0001-01-01"]
)
def test_invalid_times_are_refused(ask, read, raw_redis, body):
    raw_redis.zadd("retry", {failed(1): WHEN})
    assert ask(f"{row_of(read, '/retries', 1)['path']}/reschedule", method="POST", body=body).status == 400
