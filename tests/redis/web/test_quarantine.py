"""The quarantine: jobs removed in bulk can be restored or deleted."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from tests.markup import Markup
from tests.redis.web.stored import WHEN, failed, jid, job, push


@pytest.fixture
def put_aside(ask, raw_redis):
    """Jobs 1 and 2 of a queue and job 3 of the retries."""
    push(raw_redis, "mail", job(1), job(2))
    raw_redis.zadd("retry", {failed(3): WHEN})
    ask("/queues/mail/all/quarantine", method="POST", body="every=yes")
    ask("/retries/all/quarantine", method="POST", body="every=yes")


def key(read, number):
    return urlencode([("key", row["key"]) for row in read("/quarantine")["jobs"] if row["jid"] == jid(number)])


def test_the_page_lists_jobs_with_expiry_and_origin(ask, read, raw_redis, put_aside):
    data = read("/quarantine")
    assert (data["size"], data["days"]) == (3, 30)
    assert {(row["jid"], row["was_in"]) for row in data["jobs"]} == {
        (jid(1), "queue:mail"),
        (jid(2), "queue:mail"),
        (jid(3), "retry"),
    }
    row = data["jobs"][0]
    assert row["until"] - row["at"] == pytest.approx(30 * 86_400, abs=60)
    assert (raw_redis.llen("queue:mail"), raw_redis.zcard("retry")) == (0, 0)


def test_a_job_in_quarantine_has_its_page(ask, read, put_aside):
    for row in read("/quarantine")["jobs"]:
        data = read(row["path"])
        assert (data["jid"], set(data["actions"])) == (row["jid"], {"restore", "delete"})
    path = read("/quarantine")["jobs"][0]["path"]
    assert dict(ask(f"{path}/restore", method="POST").headers)["location"] == "/quarantine"
    assert read("/quarantine")["size"] == 2


def test_selected_jobs_are_restored_to_their_origin(ask, read, raw_redis, put_aside):
    answer = ask("/quarantine/selected/restore", method="POST", body=key(read, 3), accept="application/json")
    assert json.loads(answer.body) == {"done": "Restored 1 job.", "done_to": 1, "gone": 0}
    assert raw_redis.zrange("retry", 0, -1, withscores=True) == [(failed(3), WHEN)]
    ask("/quarantine/selected/restore", method="POST", body=key(read, 1))
    assert raw_redis.lrange("queue:mail", 0, -1) == [job(1)]


def test_all_jobs_are_restored(ask, read, raw_redis, put_aside):
    ask("/quarantine/all/restore", method="POST", body="every=yes")
    assert read("/quarantine")["size"] == 0
    assert (raw_redis.llen("queue:mail"), raw_redis.zcard("retry")) == (2, 1)


def test_deleting_selected_jobs_asks_for_confirmation(ask, read, raw_redis, put_aside):
    asked = ask("/quarantine/selected/delete", method="POST", body=key(read, 1))
    question = Markup(asked.body.decode())
    assert "Permanently delete the selected jobs in Quarantine (1)?" in question.text
    assert read("/quarantine")["size"] == 3
    form = question.form(lambda form: form.action.startswith("/quarantine/"))
    ask(form.action, method="POST", body=urlencode(form.fields))
    assert read("/quarantine")["size"] == 2
    assert raw_redis.llen("queue:mail") == raw_redis.zcard("retry") == 0


@pytest.mark.parametrize("verb, message", [("restore", "Restored 2 jobs."), ("delete", "Deleted 2 jobs.")])
@pytest.mark.usefixtures("put_aside")
def test_an_action_on_all_affects_only_counted_jobs(ask, read, raw_redis, verb, message):
    data = read(*read("/quarantine")["every"][verb].split("?"))
    assert (data["matched"], data["verb"]) == (3, verb)
    ask("/quarantine/selected/restore", method="POST", body=key(read, 1))
    raw_redis.zadd("dead", {failed(9): WHEN})
    ask("/dead/all/quarantine", method="POST", body="every=yes")
    body = f"counted={data['counted']}"
    answer = ask(f"/quarantine/all/{verb}", method="POST", body=body, accept="application/json")
    assert json.loads(answer.body)["done"] == f"{message} 1 job changed after the count and was skipped."
    assert [row["jid"] for row in read("/quarantine")["jobs"]] == [jid(9)]


def test_an_unknown_key_is_reported_as_missing(ask):
    answer = ask("/quarantine/selected/restore", method="POST", body="key=nonsense", accept="application/json")
    assert json.loads(answer.body)["gone"] == 1
    assert ask("/job/quarantine/nonsense").status == 404
