"""The pages of extensions: from the plain data that they answer to pages like all others.

A tab's functions know nothing of HTML. What they answer goes through our own template, which escapes all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from offsider.core.errors import ConfigurationError
from offsider.web.answers import Done, NotFound, Page
from offsider.web.assets import Assets
from offsider.web.display import is_finite
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import moment
from offsider.web.visit import Visit
from offsider.web.words import Words
from offsider.wiring.logs import describe, logger
from offsider.wiring.web_tab import (
    WebAction,
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebLink,
    WebNote,
    WebTab,
    WebTable,
    WebTime,
    WebView,
    is_path,
)

if TYPE_CHECKING:
    from offsider.wiring.config import Config

#: Letters of a path and its query; all others, a backslash for one, are written as bytes.
_AS_THEY_ARE = "/:@!$&'()*+,;=~%?#[]"


class TabAssets(Assets):
    """The style sheets and scripts of all tabs."""


def tab_routes(config: Config, own: Sequence[Route]) -> Iterator[Route]:
    """The routes of every tab.

    Raises:
        ConfigurationError: a tab has the path of one of our own pages.
    """
    taken = {route.path for route in own}
    for tab in config.web_tabs:
        routes = [*_routes(tab)]
        clash = next((route.path for route in routes if route.path in taken), None)
        if clash is not None:
            raise ConfigurationError(f"the web tab {tab.name!r}: there is a page {clash} already; choose another path")
        taken |= {route.path for route in routes}
        yield from routes


def tab_assets(config: Config) -> Assets:
    """The files of every tab, each under its tab's name."""
    files = {f"{tab.name}-{name}": path for tab in config.web_tabs for name, path in tab.assets.items()}
    return config.kept.get(TabAssets, lambda: TabAssets(files))


def names_of_assets(tab: WebTab | None, suffix: str) -> list[str]:
    """The plain names of a tab's files of one kind."""
    return [] if tab is None else [f"{tab.name}-{name}" for name in tab.assets if name.endswith(suffix)]


def current_tab(config: Config, path: str) -> WebTab | None:
    """The tab that a path belongs to."""
    return next((tab for tab in config.web_tabs if path == tab.path or path.startswith(f"{tab.path}/")), None)


def job_facts(config: Config, payload: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """What extensions have to say about a job, as `fact` has it; one that fails is logged and left out."""
    found: list[dict[str, Any]] = []
    for tab in config.web_tabs:
        if tab.job_facts is None or payload is None:
            continue
        try:
            found += [{"name": name, "cell": cell(value)} for name, value in tab.job_facts(payload).items()]
        except Exception as error:  # noqa: BLE001  # the extension's code; the rest of the page is fine
            logger.warning("job_facts of the web tab %r failed: %s", tab.name, describe(error))
    return found


def cell(value: object) -> dict[str, Any]:
    """A cell as plain values, its kind under ``is``."""
    match value:
        case WebLink():
            path = _address(value.path)
            return {"is": "link", "text": value.text, "path": path} if path else _plain(value.text)
        case WebTime():
            return {"is": "time", "at": moment(value.at)}
        case WebBadge():
            return {"is": "badge", "text": value.text, "tone": value.tone}
        case WebButton():
            return _button(value)
        case _:
            return _plain(value)


def block(value: object) -> dict[str, Any]:
    """A block as plain values, its kind under ``is``."""
    match value:
        case WebTable():
            rows = [[cell(each) for each in row] for row in value.rows]
            columns = list(value.columns)
            return {"is": "table", "title": value.title, "columns": columns, "rows": rows, "empty": value.empty}
        case WebFacts():
            facts = [{"name": name, "cell": cell(each)} for name, each in value.facts.items()]
            return {"is": "facts", "title": value.title, "facts": facts}
        case WebNote():
            return {"is": "note", "text": value.text, "tone": value.tone}
        case WebButtons():
            return {"is": "buttons", "buttons": [_button(each) for each in value.buttons]}
        case _:
            raise TypeError(f"a page is made of tables, facts, notes and buttons, not of {type(value).__name__}")


def _plain(value: object) -> dict[str, Any]:
    if isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value):
        return {"is": "number", "value": value, "digits": 0 if isinstance(value, int) else 2}
    return {"is": "text", "text": "" if value is None else str(value)}


def _address(path: str) -> str:
    """The path as it may stand in a page, whatever class somebody has made of its cell; empty for what is none."""
    return quote(path, safe=_AS_THEY_ARE, errors="replace") if is_path(path) else ""


def _button(button: WebButton) -> dict[str, Any]:
    path = _address(button.path)
    if not path:
        return _plain(button.text)
    return {
        "is": "button",
        "text": button.text,
        "path": path,
        "fields": dict(button.fields),
        "confirm": button.confirm,
        "danger": button.danger,
    }


def _routes(tab: WebTab) -> Iterator[Route]:
    for path, view in tab.routes.items():
        yield Route("GET", tab.path + path, LOOK, partial(_shown, view))
    for path, action in tab.actions.items():
        name = f"{tab.name}.{path.rpartition('/')[2]}"
        yield Route("POST", tab.path + path, name, partial(_done, tab, action))


def _shown(view: WebView, visit: Visit) -> Page:
    page = view(visit)
    if page is None:
        raise NotFound("There is no such thing, or no longer.")
    data = {"title": page.title, "subject": page.subject, "blocks": [block(each) for each in page.blocks]}
    return Page("tab", page.title, data, subject=page.subject)


def _done(tab: WebTab, action: WebAction, visit: Visit) -> Done:
    return Done(tab.path, Words(str(action(visit) or tab.title)))
