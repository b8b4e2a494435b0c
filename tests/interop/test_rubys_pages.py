"""Sidekiq's own web pages show our process and its jobs, and each of their buttons works on them."""

from __future__ import annotations

import json

import httpx
import pytest

from offsider.core.malformed import unwrap
from tests.interop.waiting import eventually, worker_of
from tests.plain_browser import PlainBrowser

pytestmark = pytest.mark.needs("redis-server")

ODD = '<b>é</b> & "日本"'


@pytest.fixture(scope="module")
def worker(processes, ruby):
    """A worker of ours that stays for all tests of this module, but for the last one, which stops it."""
    worker = processes.offsider("-q", "python", "-q", "low", "-c", "3", "-g", "shop")
    eventually(lambda: ruby("Sidekiq::ProcessSet.new.size") == 1, "our process")
    return worker


@pytest.fixture(scope="module")
def browser(processes, worker):
    with PlainBrowser(processes.pages()) as browser:

        def listens():
            try:
                return browser.http.get("/stats").status_code == 200
            except httpx.TransportError:
                return False

        eventually(listens, "Sidekiq's pages")
        yield browser


@pytest.fixture
def push(client, browser):
    def push(name, *args, **fields):
        return client.push({"class": name, "args": [*args], "queue": "python", **fields})

    return push


@pytest.fixture
def stored(raw_redis):
    """The jobs in a sorted set, by jid."""

    def stored(name):
        return {job["jid"]: job for job in map(json.loads, raw_redis.zrange(name, 0, -1))}

    return stored


@pytest.fixture
def failed(push, stored):
    """A job of ours in the retry set."""

    def failed(*args):
        jid = push("PythonFail", *args, backtrace=True)
        eventually(lambda: jid in stored("retry"), "the retry")
        return jid

    return failed


def row_of(page, words):
    return next(row for row in page.rows() if words in row)


def only(page, words):
    """What ticks the box of the row with these words."""
    row = next(element for element in page.all("tr") if words in element.text)
    box = next(box for box in page.all("input", type="checkbox") if row in box.parents and box["name"] == "key[]")
    return ("key[]", box["value"])


def posts(form, action):
    """Whether this is the form of the table; 8.x has another one beside it, which filters."""
    return form.method == "post" and form.action.endswith(action)


def press_all(browser, path, action):
    """The button for all jobs: in a form of its own, or since 8.0 with an action of its own in the table's form."""
    for form in browser.get(path).forms:
        if form.action.endswith(action):
            return browser.press(form)
        if any(button.action.endswith(action) for button in form.buttons):
            return browser.press(form, action)
    raise AssertionError(f"no button for {action} on {path}")


def test_busy_shows_our_process_and_its_jobs(browser, worker, push, raw_redis):
    raw_redis.delete("release")
    jid = push("WaitsForRelease", ODD)

    page = eventually(lambda: (page := browser.get("/busy")) and jid in page.text and page, "our job on the page")

    process = row_of(page, f":{worker_of(worker)}")
    assert "shop" in process
    assert "python, low" in process
    assert "WaitsForRelease" in row_of(page, jid)
    assert ODD.replace('"', '\\"') in row_of(page, jid)
    raw_redis.set("release", 1)
    eventually(lambda: jid not in browser.get("/busy").text, "the end of the job")


def test_busy_counts_and_shows_the_same_jobs_between_two_heartbeats(browser, worker, push, raw_redis):
    raw_redis.delete("release")
    (identity,) = (each for each in raw_redis.smembers("processes") if f":{worker_of(worker)}:".encode() in each)
    for number in (1, 2):
        jid = push("WaitsForRelease", number)
        eventually(lambda number=number: raw_redis.hget(identity, "busy") == b"%d" % number, "the count")
        assert jid in browser.get("/busy").text
    raw_redis.set("release", 1)
    eventually(lambda: raw_redis.hget(identity, "busy") == b"0", "the end of the jobs")
    assert "WaitsForRelease" not in browser.get("/busy").text


def test_a_job_is_deleted_from_its_queue_and_a_queue_is_cleared(browser, push, raw_redis):
    jids = [push("HardJob", number, ODD, queue="waiting", tags=["shop"]) for number in range(3)]
    assert "waiting 3" in row_of(browser.get("/queues"), "waiting")

    page = browser.get("/queues/waiting")
    assert [row["title"] for row in page.all("tr") if row["title"]] == jids[::-1]
    browser.press(page.form(lambda form: jids[1] in dict(form.fields).get("key_val", "")), "delete")
    left = [json.loads(raw)["jid"] for raw in raw_redis.lrange("queue:waiting", 0, -1)]
    assert left == [jids[2], jids[0]]

    browser.press(browser.get("/queues").form(lambda form: form.action.endswith("/queues/waiting")), "delete")
    assert not raw_redis.exists("queue:waiting")
    assert b"waiting" not in raw_redis.smembers("queues")


def test_a_job_failed_here_is_shown_and_retried(browser, failed, stored, seen):
    jid = failed(ODD)
    page = browser.get("/retries")
    assert "LookupError: boom é <b>x</b> from Python" in page.text
    shown = browser.get(f"/retries/{only(page, 'PythonFail')[1]}").text
    assert jid in shown
    assert "python_fail" in shown, "our backtrace"

    browser.press(page.form(lambda form: posts(form, "/retries")), "retry", only(page, "PythonFail"))

    eventually(lambda: len(seen(jid)) == 2, "the second run")
    assert eventually(lambda: stored("retry").get(jid), "the retry")["retry_count"] == 0


def test_retries_are_killed_and_deleted_and_the_dead_are_tried_again(browser, failed, stored, seen, raw_redis):
    raw_redis.delete("retry", "dead")
    jids = [failed(f"number {number}") for number in range(3)]
    page = browser.get("/retries")
    browser.press(page.form(lambda form: posts(form, "/retries")), "kill", only(page, "number 0"))
    assert [*stored("dead")] == [jids[0]]

    page = browser.get("/retries")
    browser.press(page.form(lambda form: posts(form, "/retries")), "delete", only(page, "number 1"))
    assert [*stored("retry")] == [jids[2]]

    press_all(browser, "/retries", "all/kill")
    assert {*stored("dead")} == {jids[0], jids[2]}

    page = browser.get("/morgue")
    browser.press(page.form(lambda form: posts(form, "/morgue")), "delete", only(page, "number 2"))
    press_all(browser, "/morgue", "all/retry")
    eventually(lambda: len(seen(jids[0])) == 2, "the second run of the dead one")


def test_the_page_of_dead_jobs_lists_invalid_jobs(browser, raw_redis):
    """Ruby's own burial of such bytes, as they are, makes the whole page fail."""
    raw_redis.delete("dead")
    malformed = [b"[1,2]", b"5", b"null", b'"text"', b"not json{", b'{"args":[]}', b'{"class":"HardJob","args":{}}']
    raw_redis.lpush("queue:python", *malformed)
    eventually(lambda: raw_redis.zcard("dead") == len(malformed), "all of them in the dead set")

    page = browser.get("/morgue")
    assert len([row for row in page.rows() if "MalformedPayload" in row and "python" in row]) == len(malformed)
    for raw in malformed:
        assert json.dumps(raw.decode()) in page.text
    browser.press(page.form(lambda form: posts(form, "/morgue")), "delete", only(page, "[1,2]"))
    assert {unwrap(member) for member in raw_redis.zrange("dead", 0, -1)} == {*malformed} - {b"[1,2]"}
    press_all(browser, "/morgue", "all/retry")
    eventually(lambda: raw_redis.zcard("dead") == len(malformed) - 1, "all of them dead again")
    assert {unwrap(member) for member in raw_redis.zrange("dead", 0, -1)} == {*malformed} - {b"[1,2]"}
    browser.get("/morgue")


def test_a_scheduled_job_is_added_to_its_queue_and_another_deleted(browser, push, stored, seen):
    now, never = (push("HardJob", args, at=3600) for args in ("now", "never"))
    page = browser.get("/scheduled")
    browser.press(page.form(lambda form: posts(form, "/scheduled")), "add_to_queue", only(page, "now"))
    page = browser.get("/scheduled")
    browser.press(page.form(lambda form: posts(form, "/scheduled")), "delete", only(page, "never"))

    assert eventually(lambda: seen(now), "the run") == [["python", ["now"], None]]
    assert never not in stored("schedule")
