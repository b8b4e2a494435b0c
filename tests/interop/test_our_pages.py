"""Our web pages show Ruby's processes and jobs, and their buttons work on them."""

from __future__ import annotations

import json

import httpx
import pytest

from offsider.web import wsgi
from tests.interop.waiting import eventually
from tests.plain_browser import PlainBrowser

pytestmark = pytest.mark.needs("redis-server")

ODD = '<b>é</b> & "日本"'


@pytest.fixture(scope="module")
def sidekiq(processes, ruby):
    process = processes.sidekiq("-q", "ruby", "-c", "2", "-g", "shop")
    eventually(lambda: ruby("Sidekiq::ProcessSet.new.size") == 1, "Ruby's process")
    return process


@pytest.fixture(scope="module")
def browser(config, sidekiq):
    with PlainBrowser("http://localhost", httpx.WSGITransport(wsgi(config, insecure=True))) as browser:
        yield browser


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


def test_busy_shows_ruby_processes_and_their_jobs(browser, sidekiq, ruby):
    jid = ruby("RubySleep.perform_async(30, odd)", odd=ODD)

    page = eventually(lambda: (page := browser.get("/fleet")) and "RubySleep" in page.text and page, "Ruby's job")

    process = row_of(browser.get("/fleet/processes"), f":{sidekiq.pid}")
    assert "shop" in process
    assert "ruby" in process
    assert jid in row_of(page, "RubySleep")
    assert jid in browser.get(f"/job/{jid}").text


def test_a_job_failed_in_ruby_is_shown_with_its_backtrace_and_retried_there(browser, failed, raw_redis, seen):
    jid = failed(ODD)
    page = browser.get("/jobs?where=retry")
    assert "ArgumentError" in page.text
    assert "boom é <b>x</b> from Ruby" in page.text
    # By its link: a search for the jid may need several pages on a slow machine.
    link = next(element["href"] for element in page.all("a") if jid in element["href"])
    assert "app.rb" in browser.get(link).text, "Ruby's backtrace"

    browser.press(chooser(page), "Retry", only(page, "FailsEverywhere"))
    eventually(lambda: len(seen(jid)) == 2, "the second run in Ruby")
    assert eventually(lambda: stored(raw_redis, "retry").get(jid), "the retry")["retry_count"] == 0


def test_quiet_and_stop_reach_rubys_process(browser, sidekiq, ruby):
    """Sidekiq reads one signal every five seconds. The running job is requeued."""

    def press(verb):
        page = browser.get("/fleet/processes")
        page = browser.get(next(link["href"] for link in page.all("a") if f":{sidekiq.pid}:" in link["href"]))
        its = page.form(lambda form: f":{sidekiq.pid}:" in form.action and form.action.endswith(verb))
        asked = browser.press(its)
        browser.press(asked.form(lambda form: ("confirmed", "yes") in form.fields))

    press("quiet")
    eventually(
        lambda: "quiet" in row_of(browser.get("/fleet/processes"), f":{sidekiq.pid}"), "the mark of a quiet process"
    )
    press("stop")
    sidekiq.wait(60)
    eventually(lambda: ruby("Sidekiq::ProcessSet.new.size") == 0, "its end")
    assert f":{sidekiq.pid}" not in browser.get("/fleet").text
