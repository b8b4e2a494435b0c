"""What stays live, and what the pages show when it does not: old values never look new."""

from __future__ import annotations

import json
import re
import signal

import pytest
from playwright.sync_api import Page, expect

from tests.process.web_process import WebProcess

pytestmark = pytest.mark.needs("chromium")
expect.set_options(timeout=60_000)
BANNER = re.compile(r"^No updates since (\d\d:\d\d:\d\d) · The server is not responding$")
#: The second of a time, and those around it, as the browser writes them.
CLOCKS = """at => [-1000, 0, 1000].map(by => new Date(at + by).toLocaleTimeString("en-GB"))"""
OPACITY = "each => Number(getComputedStyle(each).opacity)"


def dead_job(number: int) -> bytes:
    job = {
        "class": f"Class{number:03}",
        "args": ["x" * 80],
        "queue": "a-queue-whose-name-is-long",
        "jid": f"{number:024x}",
    }
    job |= {"error_class": "ConnectionResetError", "error_message": "it fails " * 9, "failed_at": 1.7e9 + number}
    return json.dumps(job).encode()


def watch(page: Page) -> None:
    """Wait for the first update."""
    page.wait_for_selector(".live-button.beat")


@pytest.fixture
def outage(tmp_path, make_server):
    """The pages of a server of their own, and ways to make them unreachable and to bring them back."""
    server = make_server(kind="valkey")
    web = WebProcess(tmp_path, server.url)
    ways = {
        "redis gone": (server.stop, server.start),
        "pages hang": (
            lambda: web.process.send_signal(signal.SIGSTOP),
            lambda: web.process.send_signal(signal.SIGCONT),
        ),
    }
    try:
        yield web, ways
    finally:
        web.process.send_signal(signal.SIGCONT)
        web.close()


@pytest.mark.parametrize("how", ["redis gone", "pages hang"])
def test_an_unreachable_server_is_reported_and_the_old_values_are_dimmed(open_, complaints, outage, how):
    complaints.expected_statuses = {503}
    web, ways = outage
    break_it, mend_it = ways[how]
    page = open_("/")
    page.goto(web.url)
    polls = []
    page.on("response", lambda response: response.status == 200 and polls.append(response.request))
    watch(page)
    expect(page.locator("#summary")).to_have_css("opacity", "1")
    break_it()
    banner, button = page.locator("[data-not-live]"), page.locator("[data-live-button]")
    expect(banner).to_be_visible()
    reported = BANNER.match(banner.text_content() or "")
    assert reported is not None
    assert reported[1] in page.evaluate(CLOCKS, polls[-1].timing["startTime"])
    expect(button).to_have_text("Stale")
    assert page.locator("#summary").evaluate(OPACITY) < 0.6
    assert page.locator("#runs").evaluate(OPACITY) < 0.6
    mend_it()
    expect(button).to_have_text("Live")
    expect(banner).to_be_hidden()
    expect(page.locator("#summary")).to_have_css("opacity", "1")
    page.close()  # before its pages end


def test_a_refreshed_list_keeps_selection_scroll_position_and_focus(stored, open_):
    stored.zadd("dead", {dead_job(n): n for n in range(20)})
    page = open_("/jobs?where=dead")
    page.set_viewport_size({"width": 650, "height": 500})
    watch(page)
    # Larger than the window with any fonts, so that both can scroll.
    for rule in (".table-wrap > table { min-width: 1200px }", ".table-wrap tbody tr { height: 70px }"):
        page.evaluate("rule => document.styleSheets[0].insertRule(rule)", rule)
    for row in (3, 7):
        page.locator("[data-check]").nth(row).check()
    page.mouse.move(1, 1)
    page.locator("[data-check]").nth(7).focus()
    page.evaluate("document.querySelector('.table-wrap').scrollLeft = 30; scrollTo(0, 400)")
    page.evaluate("getSelection().selectAllChildren(document.querySelectorAll('tbody td:nth-child(3) a')[5])")
    kept = """() => ({
        chosen: [...document.querySelectorAll('tbody tr:has(:checked) td:nth-child(3)')].map(name => name.innerText),
        focused: document.activeElement.closest('tr').querySelector('td:nth-child(3) a').textContent,
        selected: getSelection().toString(),
        left: document.querySelector('.table-wrap').scrollLeft,
        count: document.querySelector('[data-chosen-count]').textContent,
    })"""
    before = page.evaluate(kept)
    assert before["chosen"] == ["Class016", "Class012"]
    assert (before["left"], page.evaluate("scrollY")) == (30, 400)
    stored.zadd("dead", {dead_job(n): n for n in (20, 21)})
    stored.zrem("dead", dead_job(18))
    expect(page.locator("tbody td:nth-child(3) a", has_text="Class021")).to_have_count(1)
    expect(page.locator("tbody td:nth-child(3) a", has_text="Class018")).to_have_count(0)
    expect(page.locator(".pager-place")).to_have_count(0)
    assert page.evaluate(kept) == before
    assert page.evaluate("scrollY") >= 400  # the browser follows what it shows: two rows came above it, one left
    assert page.get_by_role("button", name="Delete", exact=True).first.is_enabled()


def test_no_row_moves_away_from_under_the_pointer(stored, open_):
    stored.zadd("dead", {dead_job(n): n for n in range(10)})
    page = open_("/jobs?where=dead")
    watch(page)
    page.locator("tbody tr").nth(4).hover()
    stored.zrem("dead", dead_job(7))
    stored.zadd("dead", {dead_job(11): 11})
    expect(page.locator("tr.gone")).to_contain_text("Class007")
    expect(page.locator("tr.gone [data-check]")).to_be_disabled()
    assert page.locator("tbody tr").count() == 10
    page.mouse.move(1, 1)
    expect(page.locator("tbody tr").first).to_contain_text("Class011")
    expect(page.locator("tr.gone")).to_have_count(0)
    expect(page.locator("tbody td:nth-child(3) a", has_text="Class007")).to_have_count(0)


def test_a_list_that_becomes_empty_and_one_that_fills_are_seen(stored, open_):
    stored.zadd("dead", {dead_job(1): 1})
    page = open_("/jobs?where=dead")
    watch(page)
    stored.delete("dead")
    expect(page.get_by_text("No jobs.")).to_be_visible()
    stored.zadd("dead", {dead_job(2): 2})
    expect(page.locator("tbody td:nth-child(3) a", has_text="Class002")).to_be_visible()
    page.locator("[data-check]").check()
    expect(page.locator("[data-chosen-count]")).to_have_text("1")
