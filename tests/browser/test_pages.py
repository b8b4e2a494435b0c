"""Each page in a real browser: no errors, accessible, usable on a phone, and data are never markup."""

from __future__ import annotations

import re
from contextlib import closing

import pytest

from bench.scoreboard.stored_data import store_data
from tests.browser.page_checks import crawl, offences, too_wide
from tests.hostile import STRINGS
from tests.process.every_feature_used import push_from_a_process, settled
from tests.process.stored import push
from tests.process.web_process import WebProcess
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("chromium")

APPLICATION = "tests.process.every_feature"
#: Pages that have to be reached by links alone.
WANTED = {
    *(
        "/",
        "/fleet",
        "/fleet/queues",
        "/fleet/queues/*",
        "/fleet/processes",
        "/fleet/processes/running",
        "/jobs",
        *(f"/jobs {where}" for where in ("queue", "retry", "schedule", "dead", "quarantine", "held", "running")),
        "/class",
        "/class/*",
        "/error",
    ),
    *("/error/*", "/now/findings/*", "/controls", "/log"),
    *("/periodic", "/periodic/*", "/batches", "/batches/*", "/limiters", "/limiters/*", "/locks"),
    *("/finished", "/finished/classes/*", "/finished/jobs/*"),
    *("/job/retry/*", "/job/queue/*", "/job/schedule/*", "/job/dead/*", "/job/busy/*"),
}
#: Pages with links to pages of one subject.
DETAILS = (
    *(("/fleet", "/fleet/queues/"), ("/fleet", "/fleet/processes/"), ("/class", "/class/"), ("/error", "/error/")),
    *(("/jobs?where=retry", "/job/"), ("/", "/now/findings/")),
)


def words(field):
    """Words of usual lengths."""
    return {
        "class": "shop.orders.send_invoice",
        "queue": "invoices",
        "argument": "customer-4711@example.com " * 8,
        "error_message": "HTTPSConnectionPool(host='payments.example.com', port=443): Read timed out. " * 3,
        "error_class": "requests.exceptions.ReadTimeout",
        "hostname": "worker-7f9c6d5b4-x2x9k",
        "caller": "POST /checkout",
        "tag": "shop",
        "file": "/srv/app/lib/python3.12/site-packages/requests/adapters.py",
    }.get(field, field.replace("_", "-"))


@pytest.fixture
def web(url, tmp_path):
    with closing(WebProcess(tmp_path, url, "-r", APPLICATION)) as pages:
        yield pages


@pytest.fixture
def furnished(url, stored, workers):
    """Something of everything, and a real worker that runs a job."""
    store_data(stored, words)
    push_from_a_process(url)
    worker = workers.start("-c", "3", "-t", "1", app=APPLICATION)
    wait_for(lambda: settled(stored) and stored.exists("offsider:periodic:history:often"), 60)
    worker.stopped()
    push(stored, "Long", 3600.0)
    worker = workers.start("-c", "2")
    stored.sadd("queues", "empty")
    return worker


@pytest.mark.timeout(600)
def test_every_page_is_reached_fits_and_has_no_serious_fault_in_light_and_dark(furnished, web, open_):
    page = open_("/")
    faults, seen = [], []
    for kind in crawl(page, web):
        seen.append(kind)
        faults += [f"{kind}: {what}" for what in offences(page)]
        page.emulate_media(color_scheme="dark")
        if not any(other.split("/")[1] == kind.split("/")[1] for other in seen[:-1]):  # of one noun once
            faults += [f"{kind}, dark: {what}" for what in offences(page, "color-contrast")]
        page.set_viewport_size({"width": 390, "height": 844})
        faults += [f"{kind}, phone: {what}" for what in too_wide(page)]
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1300, "height": 900})
    assert faults == []
    assert WANTED - {*seen} == set()


def test_hostile_words_run_nowhere(stored, web, open_):
    for number, text in enumerate([text for text in STRINGS if "xss" in text and len(text) < 200][::4]):
        store_data(stored, lambda _field, text=text: text, seed=number)
    page = open_("/")
    run = []
    page.expose_function("xss", lambda *_: run.append(page.url))
    for path in ("/", "/fleet", "/jobs", "/jobs?where=all", "/jobs/count?where=all", "/class", "/error"):
        page.goto(web.url + path)
        # Whoever looks closer opens, hovers and focuses things.
        page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
        page.eval_on_selector_all("a, button, input", "all => all.forEach(each => each.focus())")
    for path, below in DETAILS:
        page.goto(web.url + path)
        links = page.eval_on_selector_all(f"a[href^='{below}']", "links => links.slice(0, 6).map(l => l.href)")
        assert links, path
        for link in links:
            page.goto(link)
    assert run == []
    assert re.match(r"http://127\.0\.0\.1", page.url)
