"""A real browser before real pages with real workers behind them.

Fixtures
    url       of an emptied Valkey
    stored    a plain redis-py client of it
    workers   starts worker processes; ledger is what their jobs noted
    web       `offsider web` over that server: .url, .output
    open_     open_(path, width=1300, dark=False) opens a page of `web` and answers it

Whatever the browser complains about while a test looks at pages (an error in a script, a report of the Content Security
Policy, a file that is missing, a response of 500 and above) fails that test.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Response, sync_playwright

from tests.conftest import need
from tests.process import conftest as process
from tests.process.web_process import WebProcess

#: A violation is an error of the console as well; this one names the directive and the element.
LISTENER = """document.addEventListener("securitypolicyviolation", (event) =>
    console.error(`CSP ${event.violatedDirective}: ${event.blockedURI} ${event.sample}`));"""


url, stored, workers, ledger, web = process.url, process.stored, process.workers, process.ledger, process.web


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium. For one module: its event loop must not be there when tests of other modules run theirs."""
    need("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


class Complaints:
    """Messages of the browser that no page may cause."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        #: statuses that the test itself provokes: the console reports those of 400 and above as errors
        self.expected_statuses: set[int] = set()

    def of(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.heard.append(f"error in a script: {error}"))
        page.on("requestfailed", self._failed)
        page.on("response", self._response)

    def _console(self, message: ConsoleMessage) -> None:
        expected = any(f"status of {status}" in message.text for status in self.expected_statuses)
        if message.type in {"error", "warning"} and not expected:
            self.heard.append(f"console: {message.text} ({message.location.get('url')})")

    def _failed(self, request: Request) -> None:
        if "ERR_ABORTED" not in (request.failure or ""):  # the page navigated before a poll returned
            self.heard.append(f"not loaded: {request.url} {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self.expected_statuses:
            self.heard.append(f"{response.status}: {response.request.method} {response.url}")


@pytest.fixture
def complaints() -> Complaints:
    return Complaints()


@pytest.fixture
def open_(chromium: Browser, web: WebProcess, complaints: Complaints) -> Iterator[Callable[..., Page]]:
    contexts: list[BrowserContext] = []

    def open_(
        path: str,
        *,
        width: int = 1300,
        dark: bool = False,
        javascript: bool = True,
    ) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            locale="en-GB",
            java_script_enabled=javascript,
            reduced_motion="reduce",
        )
        context.add_init_script(LISTENER)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        complaints.of(page)
        page.goto(web.url + path)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints.heard == []
