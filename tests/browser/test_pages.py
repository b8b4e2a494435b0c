"""Each page in a real browser: no errors, accessible, usable on a phone, and data are never markup."""

from __future__ import annotations

import re

import pytest

from bench.scoreboard.furniture import furnish
from tests.browser.sight import crawl, offences, too_wide
from tests.hostile import STRINGS
from tests.process.stored import push

pytestmark = pytest.mark.needs("chromium")

#: Pages that have to be reached by links alone.
WANTED = {
    *("/", "/busy", "/queues", "/queues/*", "/retries", "/scheduled", "/dead", "/metrics", "/metrics/*", "/errors"),
    *("/slos", "/errors/*", "/callers/*", "/quarantine", "/controls"),
    *("/job/retry/*", "/job/queue/*", "/job/schedule/*", "/job/dead/*", "/job/busy/*"),
}


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
def furnished(stored, workers):
    """Something of everything, and a real worker that runs a job."""
    furnish(stored, words)
    push(stored, "Long", 60.0)
    worker = workers.start("-c", "2")
    stored.sadd("queues", "empty")
    return worker


@pytest.mark.timeout(240)
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


@pytest.fixture
def shards(stored, workers, url):
    """Shards of two servers, one of which has gone; the pages find their configuration beside them."""
    workers.write(
        f"""
        redis.url = "{url}"
        servers.gone.url = "redis://127.0.0.1:1/0"
        shards.urgent.queues = ["urgent-invoices", "urgent-mails", "password-resets", "payments-of-customers"]
        shards.nobody.queues = ["invoices"]
        shards.bulk = {{ queues = ["bulk"], server = "gone" }}
        """,
        "offsider.toml",
    )
    furnish(stored, words)
    return workers.start("--shard", "urgent", "-c", "2", environ={"REDIS_URL": None})


def test_the_page_of_shards_fits_and_has_no_serious_fault(shards, web, open_):
    page = open_("/shards")
    page.wait_for_function("document.querySelector('#shards tbody tr td:nth-of-type(2)').textContent.includes('1')")
    assert page.get_by_role("link", name="payments-of-customers").count() == 1
    assert "Redis is not responding" in page.text_content("#shards")
    assert offences(page) == []
    page.emulate_media(color_scheme="dark")
    assert offences(page, "color-contrast") == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert too_wide(page) == []


def test_pages_from_right_to_left_fit_and_have_no_serious_fault(furnished, web, open_):
    page = open_("/")
    faults = []
    for path in ("/", "/busy", "/queues", "/retries", "/metrics", "/slos", "/errors", "/queues/invoices"):
        page.goto(web.url + path)
        page.evaluate("document.documentElement.dir = 'rtl'")
        faults += [f"{path}: {what}" for what in offences(page)]
        page.set_viewport_size({"width": 390, "height": 844})
        faults += [f"{path}, phone: {what}" for what in too_wide(page)]
        page.set_viewport_size({"width": 1300, "height": 900})
    assert faults == []


def test_hostile_words_run_nowhere(stored, web, open_):
    for number, text in enumerate([text for text in STRINGS if "xss" in text and len(text) < 200][::4]):
        furnish(stored, lambda _field, text=text: text, seed=number)
    page = open_("/")
    run = []
    page.expose_function("xss", lambda *_: run.append(page.url))
    for path in ("/", "/busy", "/queues", "/retries", "/scheduled", "/dead", "/metrics", "/slos", "/errors"):
        page.goto(web.url + path)
        # Whoever looks closer opens, hovers and focuses things.
        page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
        page.eval_on_selector_all("a, button, input", "all => all.forEach(each => each.focus())")
    for where in ("queues", "metrics", "errors", "job"):
        page.goto(web.url + {"job": "/retries"}.get(where, f"/{where}"))
        for link in page.eval_on_selector_all(f"a[href^='/{where}/']", "links => links.slice(0, 6).map(l => l.href)"):
            page.goto(link)
    assert run == []
    assert re.match(r"http://127\.0\.0\.1", page.url)
