"""The pages of the server under test, asked without a network between."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.web.app import WebApp
from offsider.web.page_request import WebOptions
from offsider.web.request import Request, Response

HEADERS = {"host": "localhost", "accept": "text/html", "sec-fetch-site": "same-origin"}


@pytest.fixture
def ask(config: Config) -> Callable[..., Response]:
    """ask("/metrics", "period=1h") or ask("/error/clear", method="POST", body="every=yes")"""
    return asker(config)


@pytest.fixture
def ask_with(config: Config) -> Callable[..., Callable[..., Response]]:
    """An `ask` for pages with options of their own: ask_with(read_only=True)("/metrics")"""
    return partial(asker, config)


def asker(config: Config, **options: Any) -> Callable[..., Response]:
    app = WebApp(WebOptions({"main": Installation.of(config)}, **options))

    def answer(path: str, query: str = "", *, method: str = "GET", body: str = "", **headers: str) -> Response:
        form = {"content-type": "application/x-www-form-urlencoded"} if body else {}
        given = HEADERS | form | {name.replace("_", "-"): value for name, value in headers.items()}
        return app.respond(Request(method, path, query=query, headers=given, body=body.encode()))

    return answer


@pytest.fixture
def look(read: Callable[..., Any]) -> Callable[..., Any]:
    """The listed jobs as rows, of all steps of a search: look("where=dead&class=Mail")."""

    def rows(query: str) -> list[dict[str, Any]]:
        part = read("/jobs", query)
        found = jobs_of(part)
        while part["search"] and part["search"]["more"]:
            part = read(*part["search"]["more"].split("?"))
            found += jobs_of(part)
        return [*{row["key"]: row for row in found}.values()]

    return rows


def jobs_of(data: Any) -> list[dict[str, Any]]:
    """The jobs of a page: column -> text, and the key and the path of each."""
    (table,) = [block for block in data["blocks"] if block["is"] == "table" and "Class" in block["columns"]]
    rows: list[dict[str, Any]] = []
    for key, cells in zip(table["keys"], table["rows"], strict=True):
        texts = [cell.get("text", cell.get("value", cell.get("at"))) for cell in cells]
        path = cells[table["columns"].index("Class")]["path"]
        rows.append(dict(zip(table["columns"], texts, strict=True)) | {"key": key, "path": path})
    return rows


@pytest.fixture
def read(ask: Callable[..., Response]) -> Callable[..., Any]:
    """The data of a page, which was there for people too: read("/metrics", "period=1h")"""

    def data(path: str, query: str = "") -> Any:
        shown = ask(path, query)
        assert shown.status == 200, shown.body.decode()
        assert b"{{" not in shown.body
        return json.loads(ask(path, query, accept="application/json").body)

    return data
