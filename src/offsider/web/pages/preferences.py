"""What a visitor prefers, kept in cookies: the language, and light or dark."""

from __future__ import annotations

from offsider.web.answers import BadRequest, Done
from offsider.web.routing import PREFER, Route
from offsider.web.translation import locales
from offsider.web.visit import LOCALE_COOKIE, THEME_COOKIE, THEMES, Visit
from offsider.web.words import Words

YEAR_SECONDS = 365 * 24 * 3600


def change_locale(visit: Visit) -> Done:
    return _kept(visit, LOCALE_COOKIE, visit.choice("locale", tuple(locales()), "en"))


def change_theme(visit: Visit) -> Done:
    return _kept(visit, THEME_COOKIE, visit.choice("theme", THEMES, THEMES[0]))


def _kept(visit: Visit, cookie: str, value: str) -> Done:
    secure = "; Secure" if visit.request.scheme == "https" else ""
    path = visit.request.root or "/"
    header = f"{cookie}={value}; Path={path}; Max-Age={YEAR_SECONDS}; SameSite=Lax; HttpOnly{secure}"
    return Done(_back(visit), Words(f"{cookie}: {value}"), headers=(("set-cookie", header),))


def _back(visit: Visit) -> str:
    """The page that it was chosen on, which has to be one of ours."""
    back = visit.text("back", most=2000)
    below = back.removeprefix(visit.base)
    if not back.startswith(visit.base) or not below.startswith("/") or below.startswith("//"):
        raise BadRequest("There is no such page.")
    if not below.isascii() or not below.isprintable() or "\\" in below:
        raise BadRequest("There is no such page.")
    return below


ROUTES = [
    Route("POST", "/change_locale", PREFER, change_locale),
    Route("POST", "/change_theme", PREFER, change_theme),
]
