"""Checks of every page: the rules of accessibility, and whether it fits its window."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.process.web_process import WebProcess

SERIOUS = {"serious", "critical"}
LINKS = "links => links.map(link => link.getAttribute('href'))"
#: Addresses that differ in these parts alone lead to pages of one kind.
KINDS = (
    (re.compile(r"^/limiters/.+"), "/limiters/*"),
    (re.compile(r"^/finished/(classes|jobs)/[^/]+"), r"/finished/\1/*"),
    (
        re.compile(
            r"^/(class|error|controls|periodic|batches|locks|now/findings|fleet/queues|fleet/processes)/(?!running$)[^/]+"
        ),
        r"/\1/*",
    ),
    (re.compile(r"^/job/([a-z]+)[^/]*/[^/]+"), r"/job/\1/*"),
    (re.compile(r"^/job/[^/]+$"), "/job/*"),
)


def kind_of(address: str) -> str:
    """What pages of one kind have in common: the path without names."""
    path = urlsplit(address).path
    if path == "/jobs" and (where := re.search(r"where=([a-z]+)", address)):
        path += f" {where[1]}"
    for pattern, general in KINDS:
        path = pattern.sub(general, path)
    return path


def crawl(page: Page, web: WebProcess, *, most: int = 80) -> Iterator[str]:
    """Open one page of each kind that links lead to, starting at the first page; answers its kind while it is open."""
    known, waiting = {"/"}, deque(["/"])
    while waiting and len(known) <= most:
        address = waiting.popleft()
        reply = page.request.get(web.url + address)
        assert reply.status == 200, f"{address}: {reply.status}"
        if not reply.headers["content-type"].startswith("text/html"):
            continue
        page.goto(web.url + address)
        found: list[str] = page.eval_on_selector_all("a[href]", LINKS)
        for link in found:
            kind = kind_of(link)
            if link.startswith("/") and kind not in known and not link.startswith(("/assets/", "/log.md")):
                known.add(kind)
                waiting.append(link)
        yield kind_of(address)


def offences(page: Page, *rules: str) -> list[str]:
    """What axe finds that is serious, with the elements; all of its rules, or only some."""
    page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    options: dict[str, object] = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}
    if rules:
        options["runOnly"] = list(rules)
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:150] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in SERIOUS
    ]


def too_wide(page: Page) -> list[str]:
    """The elements that reach out of the window and make all of the page scroll sideways; empty when none does."""
    width, window = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    if width <= window:
        return []
    culprits = """[...document.querySelectorAll('body *')].filter(e => {
        const box = e.getBoundingClientRect(); return box.right > innerWidth + 1 || box.left < -1; })
        .slice(0, 4).map(e => e.outerHTML.slice(0, 120))"""
    return [f"{width} of {window} px", *page.evaluate(culprits)]


def faults(page: Page, address: str) -> list[str]:
    """What is wrong with an open page in light, in dark and on a phone, each with its address."""
    found = [f"{address}: {what}" for what in offences(page)]
    page.emulate_media(color_scheme="dark")
    found += [f"{address}, dark: {what}" for what in offences(page, "color-contrast")]
    before = page.viewport_size
    page.set_viewport_size({"width": 360, "height": 800})
    found += [f"{address}, phone: {what}" for what in too_wide(page)]
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(before or {"width": 1300, "height": 900})
    return found
