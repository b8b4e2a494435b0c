"""The flash message: the result of an action, shown on the next page.

It travels in a cookie. A query could be forged in a link; only the web UI and scripts of the same host can set the
cookie. It is limited in length, escaped like all other text, and deleted after it was shown.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.screens.messages import Message
    from offsider.web.page_request import PageRequest
    from offsider.web.request import Request

COOKIE = "offsider_flash"
MAX_LETTERS = 300
#: Lifetime of the cookie; any redirect takes less.
SECONDS = 30


def cookie(request: PageRequest, message: Message) -> tuple[str, str]:
    """Return the header that stores a message, in the user's language."""
    text = message.text(request.t)
    cut = text if len(text) <= MAX_LETTERS else f"{text[:MAX_LETTERS]}…"
    encoded = base64.urlsafe_b64encode(cut.encode(errors="replace")).decode()
    return _header(request.http, f"{COOKIE}={encoded}", SECONDS)


def cleared(request: Request) -> tuple[str, str]:
    """Return the header that deletes the message."""
    return _header(request, f"{COOKIE}=", 0)


def message(request: Request) -> str:
    """Return the message for this page; empty without one, and for refreshes by our script."""
    if request.method != "GET" or request.header("sec-fetch-dest") not in {"", "document"}:
        return ""
    try:
        text = base64.urlsafe_b64decode(request.cookies.get(COOKIE, "")).decode()
    except (binascii.Error, ValueError):
        return ""
    return text[: MAX_LETTERS + 1]


def _header(request: Request, cookie: str, seconds: int) -> tuple[str, str]:
    """Return the header that stores a cookie, ``name=value``, for this web UI."""
    secure = "; Secure" if request.scheme == "https" else ""
    path = request.root or "/"
    return "set-cookie", f"{cookie}; Path={path}; Max-Age={seconds}; SameSite=Strict; HttpOnly{secure}"
