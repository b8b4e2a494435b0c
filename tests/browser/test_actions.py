"""Every button, pressed in a real browser with real workers: stored data and running jobs match its label."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from bench.scoreboard.furniture import furnish
from tests.process.stored import push, sorted_set, waiting
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("chromium")
expect.set_options(timeout=20_000)


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


def failed_job(number: int, name: str) -> bytes:
    job = {"class": name, "args": [number], "queue": "default", "jid": f"{number:024x}", "error_class": "IOError"}
    return json.dumps(job).encode()


def jids(jobs: list[dict[str, object]]) -> list[object]:
    return [job["jid"] for job in jobs]


@pytest.fixture
def failed(stored, workers, ledger):
    """A real worker, and jobs of which each failed once; they wait an hour for their next try."""

    def failed(*words: str) -> list[str]:
        worker = workers.start("-c", "2")
        pushed = [push(stored, "Failing", 0.0, word, args=[0.0], tags=[word]) for word in words]
        wait_for(lambda: stored.zcard("retry") == len(words), what="the failures")
        for raw in stored.zrange("retry", 0, -1):
            stored.zadd("retry", {raw: 4e9})
        assert worker.runs
        return pushed

    return failed


def test_a_queue_is_paused_and_resumed_and_its_jobs_are_removed(stored, web, open_):
    pushed = [push(stored, "Short", number, queue="later") for number in (101, 102, 103, 104)]
    page = open_("/queues")
    press(page, "Pause")
    expect(page.get_by_text("paused", exact=True)).to_be_visible()
    assert stored.smembers("paused") == {b"later"}
    press(page, "Resume")
    expect(page.get_by_text("paused", exact=True)).to_have_count(0)
    assert not stored.exists("paused")

    page.get_by_role("link", name="later", exact=True).click()
    choose(page, "101")
    with page.expect_navigation():  # not the link to the page
        page.get_by_role("button", name="Quarantine", exact=True).click()
    assert jids(waiting(stored, "later")) == pushed[1:]
    choose(page, "103")
    press(page, "Delete", yes=True)
    assert jids(waiting(stored, "later")) == [pushed[1], pushed[3]]

    page.goto(f"{web.url}/queues")
    press(page, "Remove all…")
    with page.expect_navigation():  # not the link to the page
        page.get_by_role("button", name="Quarantine", exact=True).click()
    assert not stored.exists("queue:later")
    page.goto(f"{web.url}/quarantine")
    choose(page, "102")
    press(page, "Restore")
    assert jids(waiting(stored, "later")) == [pushed[1]]
    choose(page, "101")
    press(page, "Delete", yes=True)
    press(page, "Restore all…")
    press(page, "Restore")
    assert sorted(jids(waiting(stored, "later"))) == sorted([pushed[1], pushed[3]])


def test_failed_jobs_are_retried_killed_and_brought_back_by_real_workers(stored, failed, ledger, open_):
    once, twice, gone = failed("once", "twice", "gone")
    page = open_("/retries")
    choose(page, "once")
    press(page, "Retry now")
    wait_for(lambda: len(ledger.notes("raise", jid=once)) == 2, what="the second run")

    page.reload()
    choose(page, "twice")
    press(page, "Kill")
    assert jids(sorted_set(stored, "dead")) == [twice]
    choose(page, "gone")
    press(page, "Delete", yes=True)
    assert gone not in jids(sorted_set(stored, "retry"))

    page.get_by_role("link", name=re.compile("^Dead$")).click()
    page.get_by_role("table").get_by_role("link", name="Failing").click()
    expect(page.get_by_text("it fails").first).to_be_visible()
    press(page, "Retry now")
    wait_for(lambda: len(ledger.notes("raise", jid=twice)) == 2, what="the run of the dead one")
    assert not stored.zcard("dead")


def test_all_failed_jobs_that_match_are_counted_before_they_are_retried(stored, failed, ledger, open_):
    failed("red", "red", "blue")
    page = open_("/retries")
    page.get_by_text("More filters").click()
    page.get_by_label("Tag").fill("red")
    press(page, "Filter")
    expect(page.get_by_role("row").filter(has_text="Failing")).to_have_count(2)
    press(page, "Retry matching…")
    expect(page.locator("main")).to_contain_text("2")
    press(page, "Retry now")
    wait_for(lambda: len(ledger.notes("raise")) == 5, what="two further runs")
    blue = [job for job in sorted_set(stored, "retry") if job["tags"] == ["blue"]]
    assert [job["retry_count"] for job in blue] == [0]


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_bulk_confirmation_has_the_exact_count_and_applies_only_to_those_jobs(stored, open_, script):
    stored.zadd("retry", {failed_job(n, "Short" if n % 5 < 3 else "Long"): 4e9 + n for n in range(50_000)})
    page = open_("/retries?name=Short", script=script)
    press(page, "Retry matching…")
    expect(page.locator(".bulk-count b")).to_have_text("30,000")
    expect(page.get_by_role("heading", name="Retry 30,000 jobs in Retries now?")).to_be_visible()
    stored.zrem("retry", *(failed_job(n, "Short") for n in (0, 1, 2, 5, 6)))
    stored.zadd("retry", {failed_job(n, "Short"): 5e9 for n in (90_000, 90_001)})
    press(page, "Retry now")
    while not script and page.get_by_role("button", name="Continue").count():
        press(page, "Continue")
    expect(page.locator(".notice.done")).to_have_text(
        "Enqueued 29,995 jobs. 5 jobs changed after the count and were skipped."
    )
    assert stored.llen("queue:default") == 29_995
    assert stored.zcard("retry") == 20_002


def test_a_scheduled_job_is_put_off_and_then_sent_to_its_queue(stored, workers, ledger, open_):
    workers.start("-c", "1")
    jid = push(stored, "Short", 7, queue="elsewhere")
    raw = stored.rpop("queue:elsewhere").replace(b"elsewhere", b"default")
    stored.zadd("schedule", {raw: 4e9})
    page = open_("/scheduled")
    page.get_by_role("table").get_by_role("link", name="Short").click()
    with page.expect_navigation():
        page.locator("button[name=minutes][value='1440']").click()
    [(_, due)] = stored.zrange("schedule", 0, -1, withscores=True)
    assert due < 4e9
    choose(page, "Short")
    press(page, "Enqueue now")
    wait_for(lambda: ledger.notes("end", jid=jid), what="the run")


def test_a_worker_shows_its_jobs_becomes_quiet_and_stops(stored, workers, open_):
    worker = workers.start("-c", "1", "-t", "1")
    push(stored, "Long", 60.0)
    page = open_("/busy")
    press(page, "Dump threads")
    worker.until_says("Thread")
    press(page, "Quiet", yes=True)
    worker.until_says("quiet")
    press(page, "Stop", yes=True)
    assert worker.ended() == 0
    expect(page.get_by_text("No worker processes are running.")).to_be_visible()


def test_errors_are_forgotten_and_colors_are_kept(stored, open_):
    furnish(stored, lambda field: field)
    page = open_("/errors")
    press(page, "Remove all…" if page.get_by_text("Remove all…").count() else "Delete all", yes=True)
    assert not stored.zcard("offsider:errors")

    page.get_by_label("Theme").select_option("dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_without_a_script_every_step_is_a_page(stored, workers, web, open_):
    worker = workers.start("-c", "1", "-t", "1", "-q", "nothing")
    pushed = [push(stored, "Short", number, queue="later") for number in (101, 102, 103)]
    page = open_("/queues/later", script=False)
    choose(page, "101")
    press(page, "Delete")
    press(page, "Confirm")
    assert jids(waiting(stored, "later")) == pushed[1:]

    page.goto(f"{web.url}/queues")
    press(page, "Remove all…")
    press(page, "Delete permanently")
    if page.get_by_role("button", name="Confirm").count():
        press(page, "Confirm")
    assert not stored.exists("queue:later")

    page.goto(f"{web.url}/busy")
    press(page, "Stop")
    press(page, "Confirm")
    assert worker.ended() == 0
    page.get_by_label("Theme").select_option("dark")
    page.locator("form", has=page.get_by_label("Theme")).get_by_role("button").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_no_returns_to_where_one_was(stored, web, open_, script):
    for number in range(60):
        push(stored, "Short", number, queue="later")
    page = open_("/queues/later?page=2&order=newest", script=script)
    page.locator("[data-check]").nth(3).check()
    page.get_by_role("button", name="Delete", exact=True).first.click()
    expect(page.get_by_text("Permanently delete the selected jobs in later (1)?")).to_be_visible()
    if script:
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    else:
        press(page, "Cancel")
    expect(page).to_have_url(f"{web.url}/queues/later?page=2&order=newest")
    assert stored.llen("queue:later") == 60


@pytest.mark.parametrize("clipboard", [True, False], ids=["clipboard", "as without TLS"])
def test_the_id_of_a_job_is_copied(stored, open_, clipboard):
    jid = push(stored, "Short", 1, queue="later")
    page = open_("/queues/later")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    if not clipboard:
        page.context.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
        page.reload()
    page.get_by_role("button", name=f"Copy {jid}").click()
    expect(page.locator("#said")).to_have_text("Copied")
    page.locator("[data-shortcut]").focus()
    page.keyboard.press("Control+V")
    expect(page.locator("[data-shortcut]")).to_have_value(jid)
    page.locator("tbody .job-name").click()
    expect(page.get_by_role("button", name=f"Copy {jid}")).to_be_visible()


def test_deleting_an_error_confirms_that_its_jobs_stay(stored, failed, open_):
    failed("red")
    page = open_("/errors")
    page.get_by_role("row").filter(has_text="it fails").get_by_role("button", name=re.compile("^Delete")).click()
    expect(page.get_by_role("dialog")).to_contain_text(re.compile("Delete error .* of Failing\\? Its jobs are kept."))
    assert stored.zcard("offsider:errors") == 1
    with page.expect_navigation():
        page.get_by_role("dialog").get_by_role("button", name="Confirm").click()
    assert stored.zcard("offsider:errors") == 0
    assert stored.zcard("retry") == 1


def test_the_keyboard_is_enough(stored, open_):
    furnish(stored, lambda field: field)
    page = open_("/")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to content")
    page.keyboard.press("Enter")
    expect(page.locator(":focus")).to_have_attribute("id", "main")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.keyboard.press("4")
    expect(page).to_have_url(re.compile("/retries$"))
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
    expect(page).to_have_url(re.compile("/search"))
    expect(page.get_by_role("row").nth(1)).to_be_visible()


def test_pages_stay_live_without_being_loaded_again(stored, open_):
    page = open_("/queues")
    page.evaluate("localStorage.setItem('offsider-interval', '1')")
    page.reload()
    page.evaluate("window.kept = true")
    push(stored, "Short", queue="later")
    expect(page.get_by_role("row").filter(has_text="later")).to_be_visible()
    expect(page.get_by_role("link", name="1 Enqueued")).to_be_visible()
    assert page.evaluate("window.kept")


def test_several_jobs_are_chosen_with_shift(stored, open_):
    for number in range(6):
        push(stored, "Short", number, queue="later")
    page = open_("/queues/later")
    boxes = page.locator("[data-check]")
    boxes.nth(1).click()
    boxes.nth(4).click(modifiers=["Shift"])
    expect(page.locator("[data-check]:checked")).to_have_count(4)
    page.locator("[data-check-all]").first.click()
    expect(page.locator("[data-check]:checked")).to_have_count(6)
