"""The pages of batches, limits, rate limits, results and expiry: what they show is what the jobs' ledger has."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import closing

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.page_checks import faults
from tests.browser.test_actions import press
from tests.process.ledger import VARIABLE
from tests.process.web_process import ROOT, WebProcess
from tests.waiting import wait_for

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.timeout(240)]
expect.set_options(timeout=60_000)
APPLICATION = "tests.browser.features"
NEVER = "\N{EN DASH}"
AGO = re.compile(r"^\d+(\.\d)? (s|min) ago$|^now$")


@pytest.fixture
def web(url, tmp_path, ledger):
    with closing(WebProcess(tmp_path, url, "-r", APPLICATION, **{VARIABLE: str(ledger.path)})) as pages:
        yield pages


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

    for where in ("/jobs?where=retry", "/jobs?where=dead"):
        page.goto(web.url + where)
        page.get_by_role("table").get_by_role("link", name="shop.imports.check_row").click()
        expect(fact(page, "Batch")).to_have_text(batch)
        press(page, "Retry")
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


def test_expired_jobs_are_counted_and_have_not_run(workers, ledger, web, open_, pushed):
    ids = pushed("found = [send_code.enqueue() for _ in range(3)] + [daily.enqueue()]")
    workers.start("-c", "1", app=APPLICATION)
    counted(ledger, "end", "")
    page = open_("/class/shop.login.send_code")
    expect(fact(page, "Expired in total")).to_have_text("3")
    expect(fact(page, "Succeeded")).to_have_text("0")
    wrong = faults(page, "/class/*")
    page.goto(f"{web.url}/finished/classes/shop.login.send_code")
    for jid in ids[:3]:
        expect(row(page, "Last jobs", jid).nth(2)).to_have_text("expired")
    assert ledger.notes("sent") == []
    assert wrong == []
