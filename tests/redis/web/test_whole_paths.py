"""The addresses in the JSON of every page, where pages are mounted and of a second server."""

from __future__ import annotations

import json
import time

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.web.app import WebApp
from offsider.web.page_request import WebOptions
from offsider.web.request import Request
from tests.redis.web.stored import failed, job, push

BASE = "/jobs/@b"
PAGES = (
    *("/", "/fleet", "/jobs", "/jobs?where=queue%3Amail", "/jobs?where=dead", "/jobs?text=Send"),
    *("/jobs/count?where=retry", "/jobs?where=quarantine", "/class"),
    *("/class/Mail", "/error", "/job/000000000000000000000005"),
)


@pytest.fixture
def asked(config, raw_redis):
    """asked(address): the data of a page of the second server."""
    push(raw_redis, "mail", *(job(number) for number in range(60)))
    now = time.time()
    for name in ("retry", "schedule", "dead"):
        raw_redis.zadd(name, {failed(number): now + number for number in range(60)})
    other = Config()
    other.redis.url = "redis://127.0.0.1:1/0"
    app = WebApp(WebOptions({"a": Installation.of(other), "b": Installation.of(config)}))

    def ask(address, method="GET"):
        path, _, query = address.partition("?")
        headers = {"host": "localhost", "accept": "application/json", "sec-fetch-site": "same-origin"}
        answer = app.respond(Request(method, path, root="/jobs", query=query, headers=headers))
        assert answer.status == 200, (address, answer.body)
        return json.loads(answer.body)

    return ask


def texts(data):
    for value in data.values() if isinstance(data, dict) else data:
        if isinstance(value, dict | list):
            yield from texts(value)
        elif isinstance(value, str):
            yield value


@pytest.mark.parametrize("page", PAGES)
def test_every_address_in_json_can_be_requested(asked, page):
    addresses = [text for text in texts(asked(f"/@b{page}")) if text.startswith("/")]
    assert [address for address in addresses if not address.startswith(f"{BASE}/")] == []
