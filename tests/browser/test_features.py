"""The pages of batches, limits, rate limits, results and expiry: what they show is what the jobs' ledger has."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.sight import faults
from tests.browser.test_actions import press
from tests.process.ledger import VARIABLE
from tests.process.web_process import ROOT, WebProcess
from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.timeout(240)]
expect.set_options(timeout=20_000)
APPLICATION = "tests.browser.features"
NEVER = "\N{EN DASH}"
AGO = re.compile(r"^\d+(\.\d)? s ago$|^now$")


@pytest.fixture
def web(url, tmp_path, ledger):
    pages = WebProcess(tmp_path, url, "-r", APPLICATION, **{VARIABLE: str(ledger.path)})
    try:
        yield pages
    finally:
        pages.close()


@pytest.fixture
def pushed(url, ledger):
    """Runs the lines of a program that pushes; answers what they assign to ``found``."""

    def pushed(lines: str):
        program = f"import json\nfrom {APPLICATION} import *\n{lines}\nprint(json.dumps(found))"
        environ = os.environ | {"REDIS_URL": url, "PYTHONPATH": str(ROOT), VARIABLE: str(ledger.path)}
        done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return pushed


def fact(page: Page, name: str):
    """The value of a fact, or of a card."""
    return page.locator(f"dt:text-is('{name}') + dd")


def row(page: Page, table: str, words: str) -> Locator:
    """The cells of the row with these words."""
    rows = page.get_by_role("region", name=table, exact=True).get_by_role("row")
    return rows.filter(has_text=words).get_by_role("cell")


def counted(ledger, event, *words):
    """Wait until the ledger has exactly these words for an event."""
    wait_for(lambda: len(ledger.words(event)) >= len(words), what=f"{event} {words}, has {ledger.notes()}")
    assert sorted(ledger.words(event)) == sorted(words)


def test_batches_show_progress_tree_failures_callbacks_and_times(workers, ledger, web, open_, pushed):
    ids = pushed("""
from offsider.ext.batches import Batch
batch, child = Batch(description="Import of May", tags=["nightly"]), Batch(description="Pictures")
for event in ("complete", "success", "death"):
    batch.on(event, report, {"event": event})
child.on("success", report, {"event": "child"})
with batch:
    for row in range(3):
        import_row.enqueue(row)
    failed, dead = check_row.enqueue(10), check_row.using(retry=0).enqueue(11)
    with child:
        import_row.enqueue(20)
found = {"batch": batch.bid, "child": child.bid, "failed": failed, "dead": dead}
""")
    batch, child = ids["batch"], ids["child"]
    workers.start("-c", "2", app=APPLICATION)
    counted(ledger, "end", "0", "1", "2", "20")
    counted(ledger, "raise", "10", "11")
    counted(ledger, "callback", f"{child} child", f"{batch} complete", f"{batch} death")

    page = open_("/batches")
    members = 3 + len(ledger.words("raise"))
    shown = [batch, "Import of May", "nightly", "dead jobs", f"3 / {members}", "2", "2", AGO]
    expect(row(page, "Batches", batch)).to_have_text(shown)
    expect(row(page, "Batches", child)).to_have_text([child, "Pictures", "", "succeeded", "1 / 1", "0", "0", AGO])
    wrong = faults(page, "/batches")

    page.get_by_role("link", name=batch).click()
    expect(page.get_by_role("heading", name=f"Batch {batch}")).to_be_visible()
    progress = fact(page, "Succeeded members").get_by_role("progressbar")
    assert [progress.get_attribute(name) for name in ("value", "max")] == ["3", str(members)]
    for name, value in {"State": "dead jobs", "Pending members": "2", "Failures": "2", "Tags": "nightly"}.items():
        expect(fact(page, name)).to_have_text(value)
    for state in ("failed", "dead"):
        error = "shop.imports.check_row: ValueError"
        expect(row(page, f"{state.capitalize()} members", ids[state])).to_have_text([ids[state], error])
    for event, at in {"complete": AGO, "success": NEVER, "death": AGO}.items():
        expect(row(page, "Callbacks", event).last).to_have_text(at)
    expect(row(page, "Children", child).nth(3)).to_have_text("succeeded")
    wrong += faults(page, "/batches/*")
    page.get_by_role("link", name=child).click()
    expect(fact(page, "Parent")).to_have_text(batch)

    for where in ("/retries", "/dead"):
        page.goto(web.url + where)
        page.get_by_role("table").get_by_role("link", name="shop.imports.check_row").click()
        expect(fact(page, "Batch")).to_have_text(batch)
        press(page, "Retry now")
    counted(ledger, "end", "0", "1", "2", "20", "10", "11")
    events = ("complete", "death", "success")
    counted(ledger, "callback", f"{child} child", *(f"{batch} {event}" for event in events))
    page.goto(f"{web.url}/batches/{batch}")
    expect(fact(page, "State")).to_have_text("succeeded")
    expect(fact(page, "Succeeded members")).to_have_text(re.compile(rf"{members} / {members}"))
    expect(fact(page, "Duration")).to_have_text(re.compile(r"^\d+\.\d s$"))
    for event in events:
        expect(row(page, "Callbacks", event).last).to_have_text(AGO)
    press(page, "Delete", yes=True)
    expect(page.locator(".notice.done")).to_have_text(f"Deleted: {batch}")
    expect(page.get_by_role("link", name=batch)).to_have_count(0)
    assert wrong == []


def test_batches_are_found_by_tag_and_all_are_reached_through_pages(web, open_, pushed, stored):
    ids = pushed("""
from offsider.ext.batches import Batch
def made(**options):
    with Batch(**options) as batch:
        pass
    return batch.bid
nightly = [made(tags=["nightly", "import"]) for _ in range(2)]
found = {"nightly": nightly, "other": [made(tags=["import"]) for _ in range(58)]}
""")
    page = open_("/batches")
    seen: list[str] = []
    for place in ("1\N{EN DASH}25 of 60", "26\N{EN DASH}50 of 60", "51\N{EN DASH}60 of 60"):
        expect(page.locator(".pager-place").first).to_have_text(place)
        seen += page.locator("tbody tr td:first-child").all_inner_texts()
        if len(seen) < 60:
            page.get_by_role("link", name="Next page").first.click()
    assert sorted(seen) == sorted(ids["nightly"] + ids["other"])
    wrong = faults(page, "/batches?page=")

    page.get_by_role("searchbox", name="Tag").fill("nightly")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("[data-progress]")).to_have_text("Found: 2. Scanned everything.")
    assert sorted(page.locator("tbody tr td:first-child").all_inner_texts()) == sorted(ids["nightly"])
    wrong += faults(page, "/batches?tag=")
    page.get_by_title("Remove filter").click()
    expect(page.locator(".pager-place").first).to_have_text("1\N{EN DASH}25 of 60")

    # Too many for one step: the script continues until the end.
    stored.zadd("batches", {f"filler{number}": 4e9 for number in range(30_000)})
    page.goto(f"{web.url}/batches?tag=nightly")
    expect(page.locator("[data-progress]")).to_have_text("Found: 2. Scanned everything.")
    page.get_by_role("link", name="import").first.click()
    expect(page.get_by_role("searchbox", name="Tag")).to_have_value("import")
    expect(page.locator("[data-progress]")).to_have_text("Found: 60. Scanned everything.")
    assert sorted(page.locator("tbody tr td:first-child").all_inner_texts()) == sorted(seen)

    page = open_("/batches?tag=nightly", script=False)
    expect(page.locator("[data-progress]")).to_contain_text("of 30,060.")
    page.get_by_role("link", name="Continue scanning").click()
    expect(page.get_by_role("link", name="Continue scanning")).to_be_visible()
    assert wrong == []


def test_controls_show_slots_and_held_jobs_and_change_at_run_time(workers, ledger, web, open_, pushed):
    jids = pushed("found = [copy.enqueue(volume) for volume in 'abcde']")
    workers.start("-c", "5", app=APPLICATION)
    wait_for(lambda: len(ledger.notes("start")) == 2, what="two runs")
    page = open_("/controls")
    name = "shop.backups.copy"
    expect(row(page, "Limits and held jobs", name)).to_have_text([name, "2", "2", "3"])
    wrong = faults(page, "/controls")
    for text, shown in (("nothing", 0), ("backups", 1)):
        page.get_by_role("searchbox", name="Class, key or queue").fill(text)
        page.get_by_role("button", name="Filter").click()
        expect(page.locator(".chip")).to_contain_text(text)
        expect(page.get_by_role("link", name=name)).to_have_count(shown)
    wrong += faults(page, "/controls?name=")
    page.get_by_role("link", name=name).click()
    running = {note.jid for note in ledger.notes("start")}
    for jid in jids:
        table = "Jobs holding a slot" if jid in running else "Held jobs, next first"
        expect(row(page, table, jid)).to_have_count(3)
    wrong += faults(page, "/controls/*")

    held = next(jid for jid in jids if jid not in running)
    page.get_by_role("link", name=held).click()
    expect(page.get_by_role("row").filter(has_text=name)).to_contain_text("Held")
    page.get_by_role("link", name=name).click()
    expect(fact(page, "Concurrency limit")).to_have_text("2")
    wrong += faults(page, "/job/held/*")

    page.goto(f"{web.url}/controls/{name}")
    page.get_by_label("Limit", exact=True).fill("3")
    press(page, "Limit")
    wait_for(lambda: len(ledger.notes("start")) == 3, what="a third run")
    page.goto(f"{web.url}/controls/{name}")
    assert [fact(page, each).inner_text() for each in ("Jobs", "In use", "Held")] == ["limited to 3", "3", "2"]
    press(page, "Hold")
    expect(page.get_by_text("held", exact=True)).to_be_visible()
    page.goto(f"{web.url}/controls/{name}")
    press(page, "Quarantine held", yes=True)
    expect(page.locator(".notice.done")).to_have_text("Quarantined: 2")
    page.goto(f"{web.url}/quarantine")
    expect(page.get_by_role("row").filter(has_text=name)).to_have_count(2)
    assert len(ledger.notes("start")) == 3
    assert wrong == []


def test_rate_limits_show_what_they_allowed_and_refused_and_are_reset(workers, ledger, web, open_, pushed):
    pushed("found = [charge.enqueue(card) for card in range(5)]")
    workers.start("-c", "1", app=APPLICATION)
    counted(ledger, "charged", "0", "1", "2")
    page = open_("/limiters")
    api = row(page, "Rate limits", "api")
    expect(api).to_have_text(["api", "window", "3 / day", "3", "3", "0", "2"])
    expect(page.get_by_role("link", name="2 Scheduled")).to_be_visible()
    wrong = faults(page, "/limiters")
    page.get_by_role("searchbox", name="Name or kind").fill("disk")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No limiter has this name or kind.")).to_be_visible()
    page.get_by_role("searchbox", name="Name or kind").fill("window:a")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("[data-progress]")).to_have_text("Found: 1. Scanned everything.")
    wrong += faults(page, "/limiters?name=")
    page.get_by_role("link", name="api").click()
    for name, value in {"Used": "3", "Allowed": "3", "Without waiting": "3", "Refused": "2"}.items():
        expect(fact(page, name)).to_have_text(value)
    wrong += faults(page, "/limiters/*")
    press(page, "Reset", yes=True)
    expect(page.locator(".notice.done")).to_have_text("Reset: api")
    expect(api).to_have_text(["api", "window", "3 / day", "0", "0", "0", "0"])

    page.goto(f"{web.url}/scheduled")
    page.locator("[data-check-all]").first.check()
    press(page, "Enqueue now")
    counted(ledger, "charged", "0", "1", "2", "3", "4")
    page.goto(f"{web.url}/limiters/window/api")
    assert [fact(page, name).inner_text() for name in ("Used", "Refused")] == ["2", "0"]
    assert wrong == []


def test_tracked_jobs_show_state_progress_and_end_and_are_cancelled(workers, ledger, web, open_, pushed):
    ids = pushed("found = {'yearly': yearly.enqueue(4), 'daily': daily.enqueue(), 'later': daily.enqueue_in(3600)}")
    workers.start("-c", "2", app=APPLICATION)
    counted(ledger, "start", "")
    counted(ledger, "end", "")
    page = open_("/busy")
    page.get_by_role("table").get_by_role("link", name="shop.reports.yearly").click()
    page.get_by_role("link", name="State and progress").click()
    expect(fact(page, "State")).to_have_text("running")
    expect(fact(page, "Message")).to_have_text("page 4")
    assert fact(page, "Progress").get_by_role("progressbar").get_attribute("aria-label") == "4 / 4"
    wrong = faults(page, "/finished/jobs/*")
    press(page, "Cancel", yes=True)
    counted(ledger, "cancelled", "")
    page.goto(f"{web.url}/finished/jobs/{ids['yearly']}")
    expect(fact(page, "State")).to_have_text("cancelled")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)

    page.goto(f"{web.url}/finished/jobs/{ids['later']}")
    expect(fact(page, "State")).to_have_text("scheduled")
    press(page, "Cancel", yes=True)
    expect(page.locator(".notice.done")).to_have_text(f"Cancelled: {ids['later']}")
    expect(page.get_by_role("link", name="0 Scheduled")).to_be_visible()
    assert len(ledger.words("end")) == 1

    wrong += faults(page, "/finished")
    page.get_by_role("link", name="shop.reports.daily").click()
    expect(row(page, "Last jobs", ids["daily"]).nth(2)).to_have_text("succeeded")
    expect(row(page, "Last jobs", ids["later"]).nth(2)).to_have_text("cancelled")
    wrong += faults(page, "/finished/classes/*")
    page.get_by_role("searchbox").fill(ids["daily"])
    page.keyboard.press("Enter")
    state = r"^shop\.reports\.daily succeeded \d{4}-\d\d-\d\d \d\d:\d\d:\d\d in [\d,]+ ms on host \S+$"
    expect(page.locator("#state")).to_have_text(re.compile(state))
    wrong += faults(page, "/search")
    assert wrong == []


def test_expired_jobs_are_counted_and_have_not_run(workers, ledger, web, open_, pushed):
    ids = pushed("found = [send_code.enqueue() for _ in range(3)] + [daily.enqueue()]")
    workers.start("-c", "1", app=APPLICATION)
    counted(ledger, "end", "")
    page = open_("/metrics/shop.login.send_code")
    expect(fact(page, "Expired in total")).to_have_text("3")
    expect(fact(page, "Succeeded")).to_have_text("0")
    wrong = faults(page, "/metrics/*")
    page.goto(f"{web.url}/finished/classes/shop.login.send_code")
    for jid in ids[:3]:
        expect(row(page, "Last jobs", jid).nth(2)).to_have_text("expired")
    assert ledger.notes("sent") == []
    assert wrong == []
