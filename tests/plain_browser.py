"""A browser without JavaScript: reads pages over HTTP, follows links and presses buttons.

browser = PlainBrowser("http://127.0.0.1:4000")
page = browser.get("/queues")
browser.press(page, page.form(lambda form: "clear" in form.action), "clear")
"""

from __future__ import annotations

from types import TracebackType
from typing import Self
from urllib.parse import urlencode, urljoin

import httpx

from tests.markup import Form, Markup


class PlainBrowser:
    """Keeps cookies, follows redirects, and marks each POST as same-site, like browsers."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None) -> None:
        self.http = httpx.Client(base_url=url, transport=transport, follow_redirects=True, timeout=30, trust_env=False)
        self.at = url

    def get(self, path: str) -> Markup:
        response = self.http.get(path)
        assert response.status_code == 200, f"GET {path}: {response.status_code} {response.text[:500]}"
        self.at = str(response.url)
        return Markup(response.text)

    def press(self, form: Form, button: str = "", *further: tuple[str, str]) -> Markup:
        """Send a form of the page that was read last, by the button of this name, value or words."""
        pressed = form.button(button)
        named = [(pressed.name, pressed.value)] if pressed.name else []
        content = urlencode([*form.fields, *further, *named])
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
        assert form.method == "post"
        to = urljoin(self.at, pressed.action or form.action)
        response = self.http.post(to, content=content, headers=headers)
        assert response.status_code == 200, f"POST {to}: {response.status_code} {response.text[:500]}"
        self.at = str(response.url)
        return Markup(response.text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.http.close()
