"""Every button, pressed in a real browser with real workers: stored data and running jobs match its label."""

from __future__ import annotations

import json
import re
import time
from contextlib import closing

import pytest
from playwright.sync_api import Locator, Page, expect

from bench.scoreboard.stored_data import store_data
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.series import Series
from offsider.inspector.findings import refresh
from offsider.storage import run_counts
from tests.process.stored import push, waiting
from tests.redis.errors import failed_run, note_as

pytestmark = pytest.mark.needs("chromium")
expect.set_options(timeout=60_000)


def press(page: Page, name: str, *, yes: bool = False) -> None:
    """Press a button, or a link that looks like one, and see the next page; ``yes``: and agree to the question."""
    button = page.get_by_role("button", name=name, exact=True).or_(page.get_by_role("link", name=name, exact=True))
    with page.expect_navigation():
        button.first.click()
        if yes:
            page.get_by_role("dialog").get_by_role("button", name="Confirm").click()


def choose(page: Page, words: str) -> None:
    """Tick the box of the row with these words."""
    page.get_by_role("row").filter(has_text=words).get_by_role("checkbox").check()


def jids(jobs: list[dict[str, object]]) -> list[object]:
    return [job["jid"] for job in jobs]


def test_a_queue_is_paused_and_resumed_and_its_jobs_are_removed(stored, web, open_):
    pushed = [push(stored, "Short", number, queue="later") for number in (101, 102, 103, 104)]
    page = open_("/fleet")
    press(page, "Pause")
    expect(page.get_by_text("by an unknown")).to_have_count(0)
    expect(page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
    assert stored.smembers("paused") == {b"later"}
    press(page, "Resume")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    assert not stored.exists("paused")

    page.goto(f"{web.url}/jobs?where=queue:later")
    choose(page, "101")
    with page.expect_navigation():  # not the link to the page
        page.get_by_role("button", name="Quarantine", exact=True).click()
    assert jids(waiting(stored, "later")) == pushed[1:]
    choose(page, "103")
    press(page, "Delete", yes=True)
    assert jids(waiting(stored, "later")) == [pushed[1], pushed[3]]

    press(page, "Quarantine 2 jobs", yes=True)
    assert not stored.exists("queue:later")
    page.goto(f"{web.url}/jobs?where=quarantine")
    choose(page, "102")
    press(page, "Restore")
    assert jids(waiting(stored, "later")) == [pushed[1]]
    choose(page, "101")
    press(page, "Delete", yes=True)
    press(page, "Restore 1 job", yes=True)
    assert sorted(jids(waiting(stored, "later"))) == sorted([pushed[1], pushed[3]])


def test_a_worker_shows_its_jobs_becomes_quiet_and_stops(stored, workers, web, open_):
    worker = workers.start("-c", "1", "-t", "1")
    push(stored, "Long", 60.0)
    page = open_("/fleet")
    page.locator(f"a[href^='/fleet/processes/'][href*=':{worker.pid}:']").first.click()
    press(page, "Log stacks")
    worker.until_says("Thread")
    press(page, "Quiet", yes=True)
    worker.until_says("quiet")
    press(page, "Stop", yes=True)
    assert worker.ended() == 0
    page.goto(f"{web.url}/fleet/processes")
    expect(page.get_by_text("No processes are running.")).to_be_visible()


def test_no_returns_to_where_one_was(stored, web, open_):
    for number in range(60):
        push(stored, "Short", number, queue="later")
    page = open_("/jobs?where=queue:later&page=2&order=last")
    page.locator("[data-check]").nth(3).check()
    page.get_by_role("button", name="Delete", exact=True).first.click()
    expect(page.get_by_text("Delete 1 selected jobs?")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page).to_have_url(f"{web.url}/jobs?where=queue:later&page=2&order=last")
    assert stored.llen("queue:later") == 60


def test_the_id_of_a_job_is_copied_without_tls_too(stored, open_):
    jid = push(stored, "Short", 1, queue="later")
    page = open_(f"/job/{jid}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.context.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.reload()
    page.get_by_role("button", name=f"Copy {jid}").click()
    expect(page.locator("#said")).to_have_text("Copied")
    page.locator("[data-shortcut]").focus()
    page.keyboard.press("Control+V")
    expect(page.locator("[data-shortcut]")).to_have_value(jid)


def test_the_keyboard_is_enough(stored, web, open_):
    store_data(stored, lambda field: field)
    page = open_("/")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to content")
    page.keyboard.press("Enter")
    expect(page.locator(":focus")).to_have_attribute("id", "main")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.goto(f"{web.url}/jobs?where=retry")
    before = stored.zcard("retry")
    box = page.get_by_role("row").nth(1).get_by_role("checkbox")
    box.focus()
    page.keyboard.press("Space")
    expect(box).to_be_checked()
    page.get_by_role("button", name="Delete", exact=True).first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(":focus")).to_have_text("Cancel")
    page.keyboard.press("Tab")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert stored.zcard("retry") == before - 1

    page.keyboard.press("/")
    page.keyboard.type("argument")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/jobs"))
    expect(page.get_by_role("row").nth(1)).to_be_visible()


def reach(page: Page, wanted: Locator) -> None:
    """Press Tab until this is focused."""
    for _ in range(120):
        page.keyboard.press("Tab")
        if wanted.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError(f"Tab does not reach {wanted}")


@pytest.mark.parametrize("javascript", [True, False])
def test_keys_alone_lead_from_a_finding_to_an_action_also_without_javascript(stored, url, web, open_, javascript):
    config = Config()
    config.redis.url = url
    with closing(Installation.of(config)) as server:
        for ago in range(5):
            failing = Series({"class": "Invoice", "queue": "default"}, 40, 40)
            run_counts.add(server.redis, [failing], time.time() - ago * 60, wire_version=8, release="v42")
        note_as(server.redis, "c0", failed_run(time.time() - 30, name="Invoice"))
        error = {"error_class": "ValueError", "error_message": "no", "failed_at": time.time(), "retry_count": 1}
        for number in range(2):
            job = {"class": "Invoice", "args": [number], "queue": "default", "jid": f"{number:024x}", **error}
            stored.zadd("retry", {json.dumps(job): time.time() + 3600})
        refresh(server)
    page = open_("/", javascript=javascript)

    def follow(link: Locator) -> None:
        reach(page, link)
        with page.expect_navigation():
            page.keyboard.press("Enter")

    finding = page.locator(".finding h2 a").first
    if javascript:
        for tab, address in (("j", "/jobs"), ("n", "/")):
            with page.expect_navigation(url=web.url + address):
                page.keyboard.type(f"g{tab}")
        page.keyboard.press("j")
        expect(finding).to_be_focused()
        page.keyboard.press("k")
        expect(finding).to_be_focused()
    follow(page.locator(".finding h2 a", has_text="Invoice"))
    follow(page.locator("main a[href^='/class/Invoice']").first)
    follow(page.locator("main a[href^='/error/c0']").first)
    page.go_back()
    follow(page.locator("main a[href*='/jobs?'][href*='retry']").first)
    reach(page, page.get_by_role("row").nth(1).get_by_role("checkbox"))
    page.keyboard.press("Space")
    reach(page, page.get_by_role("button", name="Delete", exact=True).first)
    if javascript:
        page.keyboard.press("Enter")
        confirm = page.get_by_role("dialog").get_by_role("button", name="Confirm")
    else:
        with page.expect_navigation():
            page.keyboard.press("Enter")
        confirm = page.locator("main form button[type=submit], main form button:not([type])").first
    assert stored.zcard("retry") == 2
    follow(confirm)
    assert stored.zcard("retry") == 1


def test_several_jobs_are_chosen_with_shift(stored, open_):
    for number in range(6):
        push(stored, "Short", number, queue="later")
    page = open_("/jobs?where=queue:later")
    boxes = page.locator("[data-check]")
    boxes.nth(1).click()
    boxes.nth(4).click(modifiers=["Shift"])
    expect(page.locator("[data-check]:checked")).to_have_count(4)
    page.locator("[data-check-all]").first.click()
    expect(page.locator("[data-check]:checked")).to_have_count(6)
