"""The page of one job."""

from __future__ import annotations

import json
import re
from functools import partial
from html import unescape
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner

from offsider.cli.main import main
from offsider.config.installation import Installation
from offsider.config.web_tab import WebLink, WebTab
from offsider.core.compression import compress_backtrace
from offsider.core.errors import InvalidArguments
from offsider.inspector import EventLog
from offsider.storage import attempts
from offsider.storage.attempts import LogLine, NewAttempt
from tests.markup import Markup
from tests.redis.web.conftest import jobs_of
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


@pytest.fixture
def everywhere(raw_redis, running):
    """Jobs 1 to 4 are stored, and job 7 runs."""
    push(raw_redis, "mail", job(1))
    raw_redis.zadd("retry", {failed(2): WHEN})
    raw_redis.zadd("schedule", {job(3): WHEN})
    raw_redis.zadd("dead", {failed(4): WHEN})


def row_of(read, where, number):
    (row,) = [row for row in jobs_of(read("/jobs", f"where={where}")) if row["JID"] == jid(number)]
    return row


def found(read, number):
    """The page of a job by its id; a busy machine may need several looks."""
    return wait_for(lambda: (data := read(f"/job/{jid(number)}")).get("where") and data)


# ------------------------------------------------------------------------------------- looking


def test_a_failed_job_shows_all_its_data(ask, read, raw_redis):
    lines = ["/app/hard_job.py:7 in perform", "/app/bank.py:3 in charge"]
    more = {"tags": ["vip"], "error_backtrace": compress_backtrace(lines, 8), "bid": "b-1", "lang": {"x": 1}}
    raw_redis.zadd("retry", {failed(1, kwargs={"now": True}, **{"meta.caller_id": "web#buy", **more}): WHEN})
    data = read(row_of(read, "retry", 1)["path"])
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
    data = read(row_of(read, "retry", 1)["path"])
    counts = {}
    for link in data["same_error"]:
        counts[link["title"]] = len(look(link["path"].partition("?")[2]))
    assert counts == {"Retries": 2, "Scheduled": 0, "Dead": 1}
    assert len(look(data["same_class"][0]["path"].partition("?")[2])) == 3


def test_the_page_lists_recent_attempts(ask, read, raw_redis):
    stored = {"number": 2, "at": WHEN, "host": "h:7", "error_class": "KeyError", "error_message": "x", "duration": 0.5}
    raw_redis.zadd("retry", {failed(1): WHEN})
    raw_redis.lpush(f"offsider:attempts:{jid(1)}", json.dumps(stored))
    (attempt,) = read(row_of(read, "retry", 1)["path"])["attempts"]
    assert (attempt["number"], attempt["host"], attempt["duration_seconds"]) == (2, "h:7", 0.5)
    assert "Attempt 2 failed" in ask(row_of(read, "retry", 1)["path"]).body.decode()


def test_a_job_is_found_by_its_id_in_every_place(ask, read, everywhere):
    places = {1: "queue:mail", 2: "retry", 3: "schedule", 4: "dead", 7: "busy"}
    assert {number: found(read, number)["where"] for number in places} == places
    assert found(read, 7)["running"]["process"] == "h:7:abc"
    assert "h:7:abc" in ask("/job/busy/" + jid(7)).body.decode()
    gone = wait_for(lambda: (answer := ask("/job/nothing")).status == 404 and answer)
    assert "It may have finished, or been deleted" in gone.body.decode()


def test_long_texts_are_cut_unless_all_is_requested(ask, read, raw_redis):
    raw_redis.zadd("dead", {failed(1, args=["x" * 300_000], error_message="y" * 150_000): WHEN})
    path = row_of(read, "dead", 1)["path"]
    short = read(path)
    assert (len(short["args"]), len(short["error_message"])) == (100_001, 100_001)
    assert short["cut"]
    all_path, _, query = short["all_path"].partition("?")
    assert all_path in ask(path).body.decode()
    whole = read(all_path, query)
    assert not whole["cut"]
    assert len(json.loads(whole["args"])[0]) == 300_000


def test_a_cursor_and_the_results_of_steps_are_shown_unless_arguments_are_hidden(ask_with, raw_redis, everywhere):
    raw_redis.hset(f"it-{jid(4)}", mapping={"ex": "3", "c": '"customer 27"', "rt": "41.2"})
    raw_redis.hset(f"offsider:steps:{jid(4)}", "step:pay", '["paid by customer 27","shop.pay",1,2]')
    for redact, expected in ((None, True), (lambda name, args, kwargs: (["[hidden]"], {}), False)):
        page = ask_with(redact=redact)(f"/job/{jid(4)}").body.decode()
        assert page.count("customer 27") == 2 * expected


def test_a_job_that_waits_for_a_signal_has_a_form_for_it(ask, read, raw_redis):
    due = WHEN + 1e8
    raw_redis.zadd("schedule", {job(3): due})
    raw_redis.hset(f"offsider:steps:{jid(3)}", "waits", "paid\n" + job(3).decode())
    path = row_of(read, "schedule", 3)["path"]
    assert "Send the signal" in ask(path).body.decode()
    send = partial(ask, f"{path}/signal", method="POST", accept=JSON)
    assert b"Give the name of the signal" in send(body="value=7").body
    assert b"The value of a signal is JSON" in send(body="name=paid&value=%7B").body
    assert send(body=urlencode({"name": "paid", "value": '{"cents": 7}'})).status == 200
    assert raw_redis.hget(f"offsider:steps:{jid(3)}", "signal:paid") == b'{"cents":7}'
    assert raw_redis.zscore("schedule", job(3)) < due
    path = row_of(read, "schedule", 3)["path"]
    assert b"the first one counts" in ask(f"{path}/signal", method="POST", accept=JSON, body="name=paid").body


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
    path = row_of(read, "dead", 1)["path"]
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
    malformed, job = jobs_of(json.loads(ask("/jobs", "where=dead", accept=JSON).body))
    assert '<a href="/shop/1">4711</a>' in ask(job["path"]).body.decode()
    assert ask(malformed["path"]).status == 200


# ------------------------------------------------------------------------------------- actions


def form_of(page: str, verb: str) -> dict[str, str]:
    """Return the hidden fields of the form of an action."""
    form = next(each for each in page.split("<form ")[1:] if f'/{verb}"' in each.partition(">")[0])
    fields = re.findall(r'<input type="hidden" name="(.*?)" value="(.*?)">', form.partition("</form>")[0])
    return {name: unescape(value) for name, value in fields}


def test_a_job_is_retried_killed_and_deleted_from_its_page(ask, read, raw_redis):
    raw_redis.zadd("retry", {failed(number): WHEN + number for number in range(1, 5)})
    actions = {number: row_of(read, "retry", number) for number in range(1, 5)}
    done = ask(f"{actions[1]['path']}/retry", method="POST")
    assert (done.status, dict(done.headers)["location"]) == (303, "/jobs?where=retry")
    ask(f"{actions[2]['path']}/kill", method="POST")
    ask(f"{actions[3]['path']}/quarantine", method="POST")
    question = f"Permanently delete job Shop::Send ({jid(4)})?"
    sent = form_of(ask(actions[4]["path"]).body.decode(), "delete")
    assert sent == {"offsider_question": question}
    asked = ask(f"{actions[4]['path']}/delete", method="POST", body=urlencode(sent))
    assert question in Markup(asked.body.decode()).text
    ask(f"{actions[4]['path']}/delete", method="POST", body=urlencode(sent | {"confirmed": "yes"}))
    assert raw_redis.zcard("retry") == 0
    assert (raw_redis.llen("queue:mail"), raw_redis.zcard("dead"), len(jobs_of(read("/jobs", "where=quarantine")))) == (
        1,
        1,
        1,
    )


def test_the_actions_depend_on_the_location(read, everywhere):
    offered = {number: set(found(read, number)["actions"]) for number in (1, 2, 3, 4, 7)}
    assert offered == {
        1: {"quarantine", "delete"},
        2: {"retry", "kill", "quarantine", "delete", "reschedule", "edit"},
        3: {"add_to_queue", "quarantine", "delete", "reschedule", "signal"},
        4: {"retry", "quarantine", "delete", "edit"},
        7: {"cancel"},
    }


def test_an_impossible_action_is_reported(ask, read, raw_redis):
    raw_redis.zadd("dead", {b"no job": WHEN, failed(1): WHEN + 1})
    good, bad = (row["path"] for row in jobs_of(read("/jobs", "where=dead")))
    assert ask(f"{bad}/retry", method="POST").status == 400
    assert ask(f"{good}/kill", method="POST").status == 400
    assert ask(f"{good}/reschedule", method="POST", body="minutes=5").status == 400
    raw_redis.delete("dead")
    assert ask(f"{good}/retry", method="POST").status == 404


@pytest.mark.parametrize("name", ["retry", "schedule"])
def test_a_job_is_rescheduled(ask, read, raw_redis, name):
    raw_redis.zadd(name, {failed(1): WHEN})
    job_path = row_of(read, name, 1)["path"]
    answer = ask(f"{job_path}/reschedule", method="POST", body="at=2030-01-02T03%3A04", accept=JSON)
    assert json.loads(answer.body)["at"] == 1_893_553_440
    assert raw_redis.zrange(name, 0, -1, withscores=True)[0][1] == 1_893_553_440
    again = row_of(read, name, 1)["path"]
    before = raw_redis.time()[0]
    assert ask(f"{again}/reschedule", method="POST", body="at=2030-01-02T03%3A04&minutes=60").status == 303
    assert 3_500 < raw_redis.zrange(name, 0, -1, withscores=True)[0][1] - before < 4_000


@pytest.mark.parametrize(
    "body", ["", "at=", "at=soon", "minutes=-5", "minutes=9999999", "at=1960-01-01", "at=0001-01-01"]
)
def test_invalid_times_are_refused(ask, read, raw_redis, body):
    raw_redis.zadd("retry", {failed(1): WHEN})
    assert ask(f"{row_of(read, 'retry', 1)['path']}/reschedule", method="POST", body=body).status == 400


# ------------------------------------------------------------------------------------- why, timeline, edited retries


def test_the_page_says_why_a_waiting_job_does_not_run_and_what_to_do(ask, read, raw_redis):
    push(raw_redis, "mail", job(1), job(2))
    raw_redis.sadd("paused", "mail")
    data = found(read, 2)
    assert [reason["kind"] for reason in data["reasons"]] == ["queued", "paused", "unserved"]
    words = Markup(ask(data["path"]).body.decode()).text
    assert "It waits in the queue mail, number 2 of 2: 1 job is ahead of it." in words
    assert "Resume the queue: offsider queues resume mail" in words


def test_the_timeline_has_push_attempts_with_their_log_and_what_comes_next(ask, read, raw_redis, config):
    redis = Installation.of(config).redis
    raw = {"number": 1, "at": WHEN + 5, "host": "h:7", "error_class": "KeyError", "error_message": "x", "duration": 0.5}
    line = LogLine(WHEN + 4, "INFO", "<b>charging</b>")
    encoded = json.dumps(raw | {"release": "v42"}).encode()
    attempts.add(redis, [NewAttempt(jid(1), WHEN + 5, encoded, 60.0, [line])], WHEN + 5)
    origin = {"meta.caller_id": "web#buy", "meta.user": "ann", "app_version": "v41"}
    raw_redis.zadd("retry", {failed(1, **origin): WHEN + 60})
    timeline = found(read, 1)["timeline"]
    assert [event["title"] for event in timeline] == ["Pushed", "Attempt 1 failed", "Next retry"]
    assert timeline[0]["text"] == "by web#buy, for ann, release v41"
    assert timeline[1]["text"] == "KeyError: x (h:7, release v42)"
    assert timeline[1]["log"] == ["INFO <b>charging</b>"]
    page = ask(f"/job/{jid(1)}").body.decode()
    assert "&lt;b&gt;charging&lt;/b&gt;" in page


def test_a_job_is_retried_with_edited_arguments_as_a_new_job_that_is_linked(ask, read, raw_redis, config):
    raw_redis.zadd("dead", {failed(1, kwargs={"now": True}, retry=7, bid="b-1"): WHEN})
    path = row_of(read, "dead", 1)["path"]
    body = urlencode({"args": '[2, {"email": "b@example.com"}]', "kwargs": "{}"})
    answer = ask(f"{path}/edit", method="POST", body=body, accept=JSON)
    new = json.loads(answer.body)
    (stored,) = map(json.loads, raw_redis.lrange("queue:mail", 0, -1))
    assert stored["jid"] == new["jid"] != jid(1)
    assert (stored["class"], stored["args"], stored["retry"]) == ("Shop::Send", [2, {"email": "b@example.com"}], 7)
    assert not {"kwargs", "bid", "error_class", "failed_at", "retry_count"} & stored.keys()
    assert (raw_redis.zcard("dead"), len(jobs_of(read("/jobs", "where=quarantine")))) == (0, 1)
    (event,) = EventLog(config).read(kinds=["action"])
    assert event.fields["action"] == "job.edit"
    assert "b@example.com" not in str(event), "arguments never reach a log"
    page = ask(f"/job/{new['jid']}").body.decode()
    assert f'<a href="/job/{jid(1)}">{jid(1)}</a>' in page, "a link to the job that it is a copy of"
    assert found(read, 1)["where"] == "quarantine"
    assert ask(f"{path}/edit", method="POST", body=body).status == 404, "a second click pushes nothing"
    assert raw_redis.llen("queue:mail") == 1


@pytest.mark.parametrize("body, says", [("args=", "args"), ("args={}", "list"), ("args=[1]&kwargs=[]", "object")])
def test_invalid_edited_arguments_change_nothing(ask, read, raw_redis, body, says):
    raw_redis.zadd("dead", {failed(1): WHEN})
    answer = ask(f"{row_of(read, 'dead', 1)['path']}/edit", method="POST", body=body)
    assert answer.status == 400
    assert f"expected a JSON {says}" in (text := answer.body.decode()) or says in text
    assert (raw_redis.zcard("dead"), raw_redis.llen("queue:mail")) == (1, 0)


@pytest.mark.parametrize("cancels", [True, False])
def test_an_edited_job_that_is_not_pushed_leaves_the_old_one_where_it_was(ask, read, raw_redis, config, cancels):
    def refuse(push):
        if cancels:
            return None
        raise InvalidArguments("no such customer")
        yield

    config.client_middleware.add(refuse)
    raw_redis.zadd("dead", {failed(1): WHEN})
    answer = ask(f"{row_of(read, 'dead', 1)['path']}/edit", method="POST", body="args=[1]")
    assert (answer.status, raw_redis.zcard("dead"), len(jobs_of(read("/jobs", "where=quarantine")))) == (400, 1, 0)
    assert ("middleware canceled the push" if cancels else "no such customer") in answer.body.decode()


def test_hidden_arguments_are_neither_edited_nor_copied_as_code(ask_with, read, raw_redis):
    raw_redis.zadd("dead", {failed(1): WHEN})
    path = row_of(read, "dead", 1)["path"]
    ask = ask_with(redact=lambda name, args, kwargs: (["[hidden]"], {}))
    page = ask(path).body.decode()
    assert "edited arguments" not in page
    assert "Copy as code" not in page
    assert ask(f"{path}/edit", method="POST", body="args=[1]").status == 400
    assert raw_redis.zcard("dead") == 1


def test_code_to_copy_pushes_the_same_job(read, raw_redis):
    raw_redis.zadd("dead", {failed(1): WHEN, failed(2, **{"class": "shop.jobs.Invoice"}, kwargs={"now": True}): WHEN})
    assert found(read, 1)["code"] == (
        "Client().push({'class': 'Shop::Send', 'args': [1, {'email': 'user1@example.com'}], 'queue': 'mail'})"
    )
    assert found(read, 2)["code"] == (
        "Invoice.using(queue='mail').enqueue(2, {'email': 'user2@example.com'}, now=True)"
    )


def test_a_run_is_canceled_from_its_page_after_a_question_and_ruby_processes_refuse(ask, read, everywhere, raw_redis):
    path = f"/job/busy/{jid(7)}/cancel"
    sent = form_of(ask(f"/job/busy/{jid(7)}").body.decode(), "cancel")
    assert "Cancel this run?" in ask(path, method="POST", body=urlencode(sent)).body.decode()
    refused = ask(path, method="POST", body="confirmed=yes")
    assert refused.status == 400
    assert "h:7:abc is a Ruby process, which cannot cancel a run" in refused.body.decode()
    raw_redis.hset("offsider:owners", "h:7:abc", "{}")  # as one of our workers registers
    assert ask(path, method="POST", body="confirmed=yes").status == 303
    assert raw_redis.lrange("h:7:abc-signals", 0, -1) == [f"CANCEL {jid(7)}".encode()]
    raw_redis.delete("processes")
    assert ask(path, method="POST", body="confirmed=yes").status == 404


def test_the_terminal_shows_the_same_job_and_does_its_actions(everywhere, config, tmp_path, raw_redis):
    (tmp_path / "offsider.toml").write_text(f'[redis]\nurl = "{config.redis.url}"\n')

    def run(*words: str) -> str:
        answer = CliRunner().invoke(main, [*words, "-C", str(tmp_path / "offsider.toml")])
        assert answer.exit_code == 0, answer.output
        return answer.output

    shown = run("show", "job", jid(2))
    for text in ("Attempt 2 of ", "Shop::Send", "user2@example.com", "Next retry", f"offsider do job {jid(2)}/retry"):
        assert text in shown
    assert "Enqueued 1 job." in run("do", "job", f"{jid(2)}/retry")
    assert raw_redis.zcard("retry") == 0
    edited = run("do", "job", f"{jid(4)}/edit", "args=[9]")
    assert "Pushed as the job " in edited
    assert json.loads(raw_redis.lindex("queue:mail", 0))["args"] == [9]
