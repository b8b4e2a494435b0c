"""What an action did, told on the next page.

The words travel in a cookie, because a query could be written by anybody who sends somebody a link. Only our own pages
and scripts of the same host can set it; it is bounded, escaped like everything else, and gone once it was shown.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.web.request import Request
    from offsider.web.visit import Visit
    from offsider.web.words import Words

COOKIE = "offsider_said"
MOST_LETTERS = 300
#: Longer than any page takes to follow.
SECONDS = 30


def keeping(visit: Visit, words: Words) -> tuple[str, str]:
    """The header that keeps what is to be told, in the visitor's language."""
    text = words.said(visit.t)
    cut = text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}…"
    return _header(visit.request, base64.urlsafe_b64encode(cut.encode(errors="replace")).decode(), SECONDS)


def forgetting(request: Request) -> tuple[str, str]:
    """The header after which it is not told again."""
    return _header(request, "", 0)


def kept(request: Request) -> str:
    """What is to be told on this page; empty for nothing, and for what a script fetches to bring a page up to date."""
    if request.method != "GET" or request.header("sec-fetch-dest") not in {"", "document"}:
        return ""
    try:
        text = base64.urlsafe_b64decode(request.cookies.get(COOKIE, "")).decode()
    except (binascii.Error, ValueError):
        return ""
    return text[: MOST_LETTERS + 1]


def _header(request: Request, value: str, seconds: int) -> tuple[str, str]:
    secure = "; Secure" if request.scheme == "https" else ""
    path = request.root or "/"
    return "set-cookie", f"{COOKIE}={value}; Path={path}; Max-Age={seconds}; SameSite=Strict; HttpOnly{secure}"
