"""Thirty questions of an on-call engineer (docs/internals/on-call.md), asked in a browser during an incident.

Each begins at Now and needs at most three clicks, or one search; the evidence is what the incident has done.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Error as PlaywrightError, Page, expect

from bench.incident.application import BROKEN_RELEASE
from bench.incident.play import OPERATOR, REASON, TENANT, Incident, Size
from bench.servers import Server
from offsider.inspector.findings import stored
from tests.process.web_process import WebProcess
from tests.waiting import wait_for

#: A step is a finding after two minutes at the earliest.
pytestmark = pytest.mark.timeout(600)

MAX_CLICKS = 3
FAULTS = {
    "broken:shop.create_invoice", "broken:shop.book_courier", "late:bulk", "paused:newsletter", "quiet:exports",
    "periodic paused:reindex", "held:shop.stuck_forever", "crash", "poison", "control:shop.sync_stock",
}  # fmt: skip
INVOICE, COURIER, HANG = "broken:shop.create_invoice", "broken:shop.book_courier", "held:shop.stuck_forever"
QUESTIONS: dict[str, tuple[list[str], str]] = {
    # question: the clicks (FINDING > link, a link, or ?search), and the evidence
    "which class is broken": ([], r"shop\.create_invoice\s+\d+ % of runs fail \(was 0 %\)"),
    "why is it broken": ([], rf"release {BROKEN_RELEASE} is the likely cause"),
    "with which error and where": ([], r"KeyError in \S*application\.py:\d+ tax_rate"),
    "how many jobs, users and tenants": ([], r"tax_rate: [\d,]+ jobs?, [\d,]+ users?, at least 8 tenants"),
    "does it recover": ([], r"not recovering: \d+ % failed at|failures/s now"),
    "what is the traceback": ([f"{INVOICE} > Open"], r"TAX_RATES\[country\]"),
    "which arguments fail": ([f"{INVOICE} > Open"], r"Argument 3"),
    "which jobs failed in the last 10 minutes": (
        [f"{INVOICE} > Retry the last 10 minutes"],
        r"shop\.create_invoice(.|\n)*KeyError",
    ),
    "how do I stop a class": ([f"{INVOICE} > Defer"], r"Defer by minutes(.|\n)*Hold"),
    "how do its releases differ": ([f"{INVOICE} > shop.create_invoice"], rf"{BROKEN_RELEASE}(.|\n)*v41"),
    "how do I mute it": ([f"{INVOICE} > Mute…"], r"Mute for hours"),
    "what did the partner's class do": ([], r"TimeoutError in \S*application\.py:\d+ book_courier"),
    "which of its jobs failed": ([f"{COURIER} > Open"], r"courier\.example: Read timed out"),
    "which queue is late, until when": ([], r"bulk\s+[\d,]+ jobs waiting, .*target 1 minute.* in [\d.]+/s"),
    "who floods the queue": ([f"?{TENANT}"], TENANT),
    "why does exports wait": ([], r"exports\s+its only worker \S+ is quiet since"),
    "which worker is quiet": (["quiet:exports > Worker"], r"exports, newsletter"),
    "who paused newsletter": ([], r"newsletter\s+paused by an unknown client; 1,?\d{3} jobs"),
    "what waits there": (["paused:newsletter > Jobs"], r"shop\.newsletter"),
    "which periodic job is paused": ([], rf"reindex\s+periodic job paused by {OPERATOR}, \d+ tick"),
    "which class has an operator deferred": ([], rf"shop\.sync_stock\s+deferred by 600 s by {OPERATOR} until"),
    "why did he": (["control:shop.sync_stock > Open"], REASON),
    "what crashed": ([], r"\d+ processes died in .*SIGSEGV"),
    "when, and with which jobs": (["crash > Log"], r"died: it was killed by SIGSEGV and held \d+ job"),
    "which jobs crash it": (["poison > Jobs"], r"shop\.render_pdf"),
    "which batch is stuck": (["batch > Open"], r"Price list of November(.|\n)*299 / 300"),
    "what hangs, for how long": ([], r"shop\.stuck_forever\s+3 threads of \S+ held for \d+ minute"),
    "where does it hang": ([f"{HANG} > Stack"], r"in stuck_forever"),
    "what changed": ([], rf"UTC: {BROKEN_RELEASE}"),
    "which processes run which release": (["Fleet"], rf"{BROKEN_RELEASE}(.|\n)*v41|v41(.|\n)*{BROKEN_RELEASE}"),
}


@pytest.fixture
def pages(tmp_path: Path, chromium: Browser) -> Iterator[Page]:
    """Now, with all faults of the incident."""
    server = Server(tmp_path / "server")
    web = WebProcess(tmp_path, server.url, "-r", "bench.incident.application")
    try:
        with Incident(tmp_path, server.url, Size(seconds=90.0)) as incident:
            incident.play()
            wait_for(lambda: not FAULTS - {each.id for each in stored(incident.server)}, 240)
            page = chromium.new_page(viewport={"width": 1300, "height": 900}, base_url=web.url)
            page.set_default_timeout(30_000)
            yield page
            page.close()
    finally:
        web.close()
        server.raw.close()
        server.close()


def test_every_question_is_answered_from_now_and_normal_classes_have_no_finding(pages: Page) -> None:
    """One test: several workers of pytest would play several incidents at once."""
    assert all(len(clicks) <= MAX_CLICKS for clicks, _ in QUESTIONS.values())
    unanswered = {question: error for question in QUESTIONS if (error := unanswered_because(pages, question))}
    assert unanswered == {}
    pages.goto("/")
    subjects = pages.locator("li.finding").evaluate_all("cards => cards.map(card => card.dataset.key)")
    assert {each for each in subjects if each.startswith(("broken", "slow"))} <= {INVOICE, COURIER}
    assert "config" not in {each.partition(":")[0] for each in subjects}


def unanswered_because(pages: Page, question: str) -> str:
    """Click, and look for the evidence; return the reason if it is not there."""
    clicks, evidence = QUESTIONS[question]
    try:
        pages.goto("/")
        for click in clicks:
            follow(pages, click)
        expect(pages.locator("body")).to_contain_text(re.compile(evidence), timeout=20_000)
    except (AssertionError, PlaywrightError) as error:
        return str(error)
    return ""


def follow(pages: Page, click: str) -> None:
    if click.startswith("?"):
        pages.get_by_role("searchbox", name="Search all jobs").fill(click[1:])
        pages.keyboard.press("Enter")
    elif " > " in click:
        finding, link = click.split(" > ")
        card = pages.locator(f'li.finding[data-key^="{finding}"]')
        card.get_by_role("link", name=link, exact=True).first.click()
    else:
        pages.get_by_role("navigation").get_by_role("link", name=click, exact=True).click()
