"""Our web pages show Ruby's processes and jobs, and their buttons work on them."""

from __future__ import annotations

import json

import httpx
import pytest

from offsider.web import wsgi
from tests.interop.waiting import eventually
from tests.visitor import Visitor

pytestmark = pytest.mark.needs("redis-server")

ODD = '<b>é</b> & "日本"'


@pytest.fixture(scope="module")
def sidekiq(processes, ruby):
    process = processes.sidekiq("-q", "ruby", "-c", "2", "-g", "shop")
    eventually(lambda: ruby("Sidekiq::ProcessSet.new.size") == 1, "Ruby's process")
    return process


@pytest.fixture(scope="module")
def visitor(config, sidekiq):
    with Visitor("http://localhost", httpx.WSGITransport(wsgi(config, insecure=True))) as visitor:
        yield visitor


@pytest.fixture
def failed(ruby, raw_redis):
    """A job that failed in Ruby and waits for its retry."""

    def failed(*args):
        jid = ruby("FailsEverywhere.set(retry_queue: 'ruby').perform_async(*args)", args=list(args))
        eventually(lambda: jid in stored(raw_redis, "retry"), "the retry")
        return jid

    return failed


def stored(raw_redis, name):
    return {job["jid"]: job for job in map(json.loads, raw_redis.zrange(name, 0, -1))}


def row_of(page, words):
    return next(row for row in page.rows() if words in row)


def only(page, words):
    """What ticks the box of the row with these words."""
    row = next(element for element in page.all("tr") if words in element.text)
    box = next(box for box in page.all("input", type="checkbox") if row in box.parents and box["name"] == "key")
    return ("key", box["value"])


def chooser(page):
    return page.form(lambda form: any("/selected/" in button.action for button in form.buttons))


def test_busy_shows_ruby_processes_and_their_jobs(visitor, sidekiq, ruby):
    jid = ruby("RubySleep.perform_async(30, odd)", odd=ODD)

    page = eventually(lambda: (page := visitor.get("/busy")) and "RubySleep" in page.text and page, "Ruby's job")

    process = row_of(page, f":{sidekiq.pid}")
    assert "shop" in process
    assert "ruby" in process
    assert ODD.replace('"', '\\"') in row_of(page, "RubySleep")
    assert jid in visitor.get(f"/job/{jid}").text


def test_a_queue_and_its_jobs_are_shown_and_one_is_deleted(visitor, ruby, raw_redis):
    jids = [
        ruby("RubyEcho.set(queue: 'waiting').perform_async(number, {'a' => [1.5, nil]})", number=n) for n in range(3)
    ]
    assert "3" in row_of(visitor.get("/queues"), "waiting")

    page = visitor.get("/queues/waiting")
    assert '1, {"a": [1.5, null]}' in page.text
    asked = visitor.press(chooser(page), "/selected/delete", only(page, '1, {"a"'))
    visitor.press(asked.form(lambda form: ("confirmed", "yes") in form.fields))
    left = [json.loads(raw)["jid"] for raw in raw_redis.lrange("queue:waiting", 0, -1)]
    assert left == [jids[2], jids[0]]


def test_a_job_failed_in_ruby_is_shown_with_its_backtrace_and_retried_there(visitor, failed, raw_redis, seen):
    jid = failed(ODD)
    page = visitor.get("/retries")
    assert "ArgumentError" in page.text
    assert "boom é <b>x</b> from Ruby" in page.text
    # By its link: a search for the jid may need several pages on a slow machine.
    link = next(element["href"] for element in page.all("a") if jid in element["href"])
    assert "app.rb" in visitor.get(link).text, "Ruby's backtrace"

    visitor.press(chooser(page), "/selected/retry", only(page, "FailsEverywhere"))
    eventually(lambda: len(seen(jid)) == 2, "the second run in Ruby")
    assert eventually(lambda: stored(raw_redis, "retry").get(jid), "the retry")["retry_count"] == 0


def test_a_retry_is_killed_and_brought_back(visitor, failed, raw_redis, ruby, seen):
    jid = failed("to be killed")
    page = visitor.get("/retries")
    visitor.press(chooser(page), "/selected/kill", only(page, "to be killed"))
    assert ruby("Sidekiq::DeadSet.new.map { |job| job.jid }") == [jid]

    page = visitor.get("/dead")
    visitor.press(chooser(page), "/selected/retry", only(page, "to be killed"))
    eventually(lambda: len(seen(jid)) == 2, "the second run in Ruby")


def test_a_job_that_ruby_scheduled_is_sent_to_its_queue(visitor, ruby, seen):
    jid = ruby("RubyEcho.perform_in(3600, 'later')")
    page = visitor.get("/scheduled")
    visitor.press(chooser(page), "/selected/add_to_queue", only(page, "RubyEcho"))

    assert eventually(lambda: seen(jid), "the run") == [["ruby", ["later"], None]]


def test_quiet_and_stop_reach_rubys_process(visitor, sidekiq, ruby):
    """Sidekiq reads one signal every five seconds. The running job is requeued."""

    def press(verb):
        page = visitor.get("/busy")
        its = page.form(lambda form: f":{sidekiq.pid}:" in form.action and form.action.endswith(verb))
        asked = visitor.press(its)
        visitor.press(asked.form(lambda form: ("confirmed", "yes") in form.fields))

    press("quiet")
    eventually(lambda: "quiet" in row_of(visitor.get("/busy"), f":{sidekiq.pid}"), "the mark of a quiet process")
    press("stop")
    sidekiq.wait(60)
    eventually(lambda: ruby("Sidekiq::ProcessSet.new.size") == 0, "its end")
    assert f":{sidekiq.pid}" not in visitor.get("/busy").text
