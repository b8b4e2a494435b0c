"""The pages of screens: their routes, their files, and the filter and pager of a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from offsider.config.addresses import with_fields
from offsider.config.installation import Installation
from offsider.config.web_tab import (
    POSITION_FIELDS,
    WebAction,
    WebDone,
    WebFilter,
    WebJson,
    WebPage,
    WebPager,
    WebPlainText,
    WebTab,
    WebTable,
    WebView,
)
from offsider.core.controls import InvalidControl
from offsider.core.errors import ConfigurationError, InvalidOptions, UnknownSubject
from offsider.screens import plain
from offsider.screens.errors import BadRequest, NotFound
from offsider.screens.messages import Message
from offsider.screens.tabs import action_of, all_tabs, current_tab, find
from offsider.web import flash
from offsider.web.assets import Assets
from offsider.web.lists import pager, progress
from offsider.web.page_request import PageRequest
from offsider.web.results import ActionResult, Page, Redirect, Text
from offsider.web.routing import LOOK, Route


class TabAssets(Assets):
    """Style sheets and scripts of all tabs."""


def tab_routes(installation: Installation, own: Sequence[Route]) -> Iterator[Route]:
    """Yield the routes of every tab.

    Raises:
        ConfigurationError: a tab has the path of a built-in page.
    """
    taken = {route.path for route in own}
    for tab in all_tabs(installation):
        routes = [*_routes(tab)]
        clash = next((route.path for route in routes if route.path in taken), None)
        if clash is not None:
            raise ConfigurationError(f"the web tab {tab.name!r}: the page {clash} already exists; choose another path")
        taken |= {route.path for route in routes}
        yield from routes


def tab_assets(installation: Installation) -> Assets:
    """Return the files of all tabs, with the tab's name as prefix."""
    files = {f"{tab.name}-{name}": path for tab in all_tabs(installation) for name, path in tab.assets.items()}
    return installation.shared.get(TabAssets, lambda: TabAssets(files))


def names_of_assets(tab: WebTab | None, suffix: str) -> list[str]:
    """Return the names of a tab's files with a suffix."""
    return [] if tab is None else [f"{tab.name}-{name}" for name in tab.assets if name.endswith(suffix)]


def _routes(tab: WebTab) -> Iterator[Route]:
    for path, view in tab.routes.items():
        yield Route("GET", tab.path + path, LOOK, partial(_shown, tab, view))
    for path, values in tab.json.items():
        yield Route("GET", path, LOOK, partial(_json, values))
    for path, text in tab.texts.items():
        yield Route("GET", path, LOOK, partial(_text, text))
    yield from action_routes(tab)


def action_routes(tab: WebTab) -> Iterator[Route]:
    """Yield the routes of the actions of a tab."""
    for path, action in tab.actions.items():
        act = partial(_done, tab, action)
        yield Route("POST", tab.path + path, action_of(tab, path), act, fields=tab.fields.get(path, ()))


def may_post(request: PageRequest, path: str) -> bool:
    """Whether the user may do the action at a path, so that its button is shown."""
    path = path.partition("?")[0]
    tab = current_tab(request.installation, path)
    found = None if tab is None else find(tab.actions, path.removeprefix(tab.path))
    return not request.read_only and (tab is None or found is None or request.may(action_of(tab, found[0])))


def _shown(tab: WebTab, view: WebView, request: PageRequest) -> Page | Redirect:
    page = view(request)
    if page is None and flash.message(request.http):
        return Redirect(tab.path)  # the action that was done here has removed its subject
    if page is None:
        raise NotFound("error.gone")
    data = plain.page(page)
    for block in data["blocks"]:
        if "buttons" in block:
            block["buttons"] = [each for each in block["buttons"] if may_post(request, str(each.get("path", "")))]
    return Page("tab", page.title, data | _parts(request, page), subject=page.subject)


def _parts(request: PageRequest, page: WebPage) -> dict[str, Any]:
    """Return the filter of a page, and the pager or the scan of the table that has one; None without."""
    path, query = request.location, {name: value for name, value in request.query.pairs if name not in POSITION_FIELDS}
    if page.filter is not None and page.filter.values is not None:
        query |= page.filter.values
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
    known = values if wanted.values is None else wanted.values
    fields = {name: value for name, value in known.items() if value and name in values}
    kept = {name: value for name, value in query.items() if name not in values}
    return {
        "labels": [{"name": name, "label": label} for name, label in wanted.fields.items()],
        "values": values,
        "fields": fields,
        "kept": kept,
        "path": with_fields(request.location, **kept),
        "without": {name: with_fields(request.location, **{**fields, name: ""}, **kept) for name in fields},
    }


def _json(values: WebJson, request: PageRequest) -> Text:
    found = values(request)
    if found is None:
        raise NotFound("error.gone")
    return Text(json.dumps(found), "application/json")


def _text(text: WebPlainText, request: PageRequest) -> Text:
    return Text(text(request))


def _done(tab: WebTab, action: WebAction, request: PageRequest) -> ActionResult:
    try:
        done = action(request)
        path = request.came_from or tab.path
        if isinstance(done, WebDone):
            return ActionResult(done.path or path, Message(done.text), done.data)
        return ActionResult(path, Message(done or tab.title))
    except (ConfigurationError, InvalidControl, InvalidOptions) as error:
        raise BadRequest(str(error)) from error
    except UnknownSubject as error:
        raise NotFound(str(error)) from error
