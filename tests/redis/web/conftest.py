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
from offsider.web.options import WebOptions
from offsider.web.request import Request, Response

HEADERS = {"host": "localhost", "accept": "text/html", "sec-fetch-site": "same-origin"}


@pytest.fixture
def config(redis_url: str) -> Config:
    config = Config()
    config.redis.url = redis_url
    return config


@pytest.fixture
def ask(config: Config) -> Callable[..., Response]:
    """ask("/metrics", "period=1h") or ask("/errors/clear", method="POST", body="every=yes")"""
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
    """Like `read`, for a scan through many jobs: continues until its end, and returns the jobs of all parts."""

    def data(path: str, query: str = "") -> Any:
        part = read(path, query)
        jobs = part["jobs"]
        while part["search"]["more"]:
            to, _, fields = part["search"]["more"].partition("?")
            part = read(to, fields)
            jobs = jobs + part["jobs"]
        return part | {"jobs": jobs}

    return data


@pytest.fixture
def read(ask: Callable[..., Response]) -> Callable[..., Any]:
    """The data of a page, which was there for people too: read("/metrics", "period=1h")"""

    def data(path: str, query: str = "") -> Any:
        shown = ask(path, query)
        assert shown.status == 200, shown.body.decode()
        assert b"{{" not in shown.body
        return json.loads(ask(path, query, accept="application/json").body)

    return data
