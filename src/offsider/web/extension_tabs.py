"""Pages of extensions, built from the plain data that their functions return.

The functions of a tab return data, not HTML. Our template renders and escapes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any
from urllib.parse import quote

from offsider.config.installation import Installation
from offsider.config.web_tab import (
    POSITION_FIELDS,
    WebAction,
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebFilter,
    WebForm,
    WebJson,
    WebLink,
    WebLinks,
    WebNote,
    WebPage,
    WebPager,
    WebProgress,
    WebTab,
    WebTable,
    WebTime,
    WebView,
    is_path,
)
from offsider.core.controls import InvalidControl
from offsider.core.error_text import describe
from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.logs.setup import logger
from offsider.web.assets import Assets
from offsider.web.display import is_finite
from offsider.web.filters import address, pager, progress
from offsider.web.page_request import PageRequest
from offsider.web.pages import controls
from offsider.web.results import ActionResult, BadRequest, Message, NotFound, Page, Text
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import moment

#: Characters allowed in a path and its query; all others, including the backslash, are quoted.
_AS_THEY_ARE = "/:@!$&'()*+,;=~%?#[]"


class TabAssets(Assets):
    """Style sheets and scripts of all tabs."""


def all_tabs(here: Installation) -> Sequence[WebTab]:
    """Return the tabs that consist of data: our own ones and those of extensions."""
    return [controls.TAB, *here.config.web_tabs]


def tab_routes(here: Installation, own: Sequence[Route]) -> Iterator[Route]:
    """Yield the routes of every tab.

    Raises:
        ConfigurationError: a tab has the path of a built-in page.
    """
    taken = {route.path for route in own}
    for tab in all_tabs(here):
        routes = [*_routes(tab)]
        clash = next((route.path for route in routes if route.path in taken), None)
        if clash is not None:
            raise ConfigurationError(f"the web tab {tab.name!r}: the page {clash} already exists; choose another path")
        taken |= {route.path for route in routes}
        yield from routes


def tab_assets(here: Installation) -> Assets:
    """Return the files of all tabs, with the tab's name as prefix."""
    files = {f"{tab.name}-{name}": path for tab in all_tabs(here) for name, path in tab.assets.items()}
    return here.shared.get(TabAssets, lambda: TabAssets(files))


def names_of_assets(tab: WebTab | None, suffix: str) -> list[str]:
    """Return the names of a tab's files with a suffix."""
    return [] if tab is None else [f"{tab.name}-{name}" for name in tab.assets if name.endswith(suffix)]


def current_tab(here: Installation, path: str) -> WebTab | None:
    """Return the tab of a path."""
    return next((tab for tab in all_tabs(here) if path == tab.path or path.startswith(f"{tab.path}/")), None)


def job_facts(here: Installation, payload: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the facts about a job from all extensions. An extension that fails is logged and left out."""
    found: list[dict[str, Any]] = []
    for tab in all_tabs(here):
        if tab.job_facts is None or payload is None:
            continue
        try:
            found += [{"name": name, "cell": cell(value)} for name, value in tab.job_facts(payload).items()]
        except Exception as error:  # noqa: BLE001  # the extension's code; the rest of the page is fine
            logger.warning("job_facts of the web tab %r failed: %s", tab.name, describe(error))
    return found


def cell(value: object) -> dict[str, Any]:
    """Return a cell as plain values, with its kind under ``is``."""
    match value:
        case WebLink():
            path = _address(value.path)
            return {"is": "link", "text": value.text, "path": path} if path else _plain(value.text)
        case WebLinks():
            return {"is": "links", "links": [cell(each) for each in value.links]}
        case WebTime():
            return {"is": "time", "at": moment(value.at)}
        case WebBadge() | WebProgress():
            return {"is": "badge" if isinstance(value, WebBadge) else "progress", **asdict(value)}
        case WebButton():
            return _button(value)
        case _:
            return _plain(value)


def block(value: object) -> dict[str, Any]:
    """Return a block as plain values, with its kind under ``is``."""
    match value:
        case WebTable():
            rows = [[cell(each) for each in row] for row in value.rows]
            return {
                "is": "table",
                "title": value.title,
                "columns": list(value.columns),
                "numeric": sorted({at for row in rows for at, each in enumerate(row) if each["is"] == "number"}),
                "rows": rows,
                "empty": value.empty,
            }
        case WebFacts():
            facts = [{"name": name, "cell": cell(each)} for name, each in value.facts.items()]
            return {"is": "facts", "title": value.title, "facts": facts}
        case WebNote():
            return {"is": "note", "text": value.text, "tone": value.tone}
        case WebButtons():
            return {"is": "buttons", "buttons": [_button(each) for each in value.buttons]}
        case WebForm():
            buttons = [_button(each) for each in value.buttons]
            fields = [asdict(each) for each in value.fields]
            return {"is": "form", "title": value.title, "fields": fields, "buttons": buttons, "confirm": value.confirm}
        case _:
            raise TypeError(
                f"a page consists of WebTable, WebFacts, WebNote, WebButtons and WebForm, got {type(value).__name__}"
            )


def _plain(value: object) -> dict[str, Any]:
    if isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value):
        return {"is": "number", "value": value, "digits": 0 if isinstance(value, int) else 2}
    return {"is": "text", "text": "" if value is None else str(value)}


def _address(path: str) -> str:
    """Quote a path for a link; empty if it is not a path. The value comes from the extension, so it is not trusted."""
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
    for path, values in tab.json.items():
        yield Route("GET", path, LOOK, partial(_json, values))
    for path, action in tab.actions.items():
        name = f"{tab.name}.{path.rpartition('/')[2]}"
        yield Route("POST", tab.path + path, name, partial(_done, tab, action), fields=tab.fields.get(path, ()))


def _shown(view: WebView, request: PageRequest) -> Page:
    page = view(request)
    if page is None:
        raise NotFound("error.gone")
    data = {"title": page.title, "subject": page.subject, "blocks": [block(each) for each in page.blocks]}
    return Page("tab", page.title, data | _parts(request, page), subject=page.subject)


def _parts(request: PageRequest, page: WebPage) -> dict[str, Any]:
    """Return the filter of a page, and the pager or the scan of the table that has one; None without."""
    path, query = request.location, {name: value for name, value in request.query.pairs if name not in POSITION_FIELDS}
    parts: dict[str, Any] = {"filter": None, "paged": None, "pager": None, "search": None}
    if page.filter is not None:
        parts["filter"] = _filter(request, page.filter, query)
    for at, table in enumerate(page.blocks):
        if not isinstance(table, WebTable) or table.pager is None:
            continue
        parts["paged"] = at
        if isinstance(table.pager, WebPager):
            parts["pager"] = pager(path, request.page, table.pager.total, **query)
        else:
            parts["search"] = progress(request, len(table.rows), table.pager, path, **query)
    return parts


def _filter(request: PageRequest, wanted: WebFilter, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a filter with their values, and an address without each, as for lists of jobs."""
    values = {name: request.text(name) for name in wanted.fields}
    fields = {name: value for name, value in values.items() if value}
    kept = {name: value for name, value in query.items() if name not in values}
    return {
        "labels": [{"name": name, "label": label} for name, label in wanted.fields.items()],
        "values": values,
        "fields": fields,
        "kept": kept,
        "path": address(request.location, **kept),
        "without": {name: address(request.location, **{**fields, name: ""}, **kept) for name in fields},
    }


def _json(values: WebJson, request: PageRequest) -> Text:
    found = values(request)
    if found is None:
        raise NotFound("error.gone")
    return Text(json.dumps(found), "application/json")


def _done(tab: WebTab, action: WebAction, request: PageRequest) -> ActionResult:
    try:
        return ActionResult(tab.path, Message(str(action(request) or tab.title)))
    except (InvalidControl, InvalidOptions) as error:
        raise BadRequest(str(error)) from error
