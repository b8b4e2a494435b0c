"""The preference of the user, stored in a cookie: the theme."""

from __future__ import annotations

from offsider.web.page_request import THEME_COOKIE, THEMES, PageRequest
from offsider.web.results import ActionResult, BadRequest, Message
from offsider.web.routing import PREFER, Route

YEAR_SECONDS = 365 * 24 * 3600


def change_theme(request: PageRequest) -> ActionResult:
    value = request.choice("theme", THEMES, THEMES[0])
    secure = "; Secure" if request.http.scheme == "https" else ""
    path = request.http.root or "/"
    header = f"{THEME_COOKIE}={value}; Path={path}; Max-Age={YEAR_SECONDS}; SameSite=Lax; HttpOnly{secure}"
    return ActionResult(_back(request), Message(f"{THEME_COOKIE}: {value}"), headers=(("set-cookie", header),))


def _back(request: PageRequest) -> str:
    """Return the page to go back to, which must be one of ours."""
    back = request.text("back", most=2000)
    below = back.removeprefix(request.base)
    if not back.startswith(request.base) or not below.startswith("/") or below.startswith("//"):
        raise BadRequest("error.no_page")
    if not below.isascii() or not below.isprintable() or "\\" in below:
        raise BadRequest("error.no_page")
    return below


ROUTES = [Route("POST", "/change_theme", PREFER, change_theme)]
