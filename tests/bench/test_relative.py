"""Costs relative to a plain one of the same run, in CPU time: a slow machine changes no ratio, a regression does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.inspector import DeadSet
from offsider.inspector.job_filter import JobFilter
from offsider.web.app import WebApp
from offsider.web.page_request import WebOptions
from offsider.web.request import Request

JOBS = 20_000
HEADERS = {"host": "localhost", "accept": "text/html", "sec-fetch-site": "same-origin"}


@pytest.fixture
def server(raw_redis, redis_url):
    fields = {"class": "Mail", "args": ["x" * 40], "queue": "q", "error_class": "ValueError", "error_message": "no"}
    jobs = (json.dumps(fields | {"jid": f"{number:024x}"}) for number in range(JOBS))
    raw_redis.zadd("dead", {job: number for number, job in enumerate(jobs)})
    config = Config()
    config.redis.url = redis_url
    yield Installation.of(config)
    Installation.of(config).close()


def ratio(measured: Callable[[], Any], plain: Callable[[], Any], times: int) -> float:
    def seconds(call: Callable[[], Any]) -> float:
        began = time.process_time()
        call()
        return time.process_time() - began

    pairs = [(seconds(measured), seconds(plain)) for _ in range(times)]
    return min(first for first, _ in pairs[1:]) / min(second for _, second in pairs[1:])  # the first one compiles


@pytest.mark.parametrize("path, query, most", [("/", "", 6), ("/jobs", "where=dead", 14), ("/fleet", "", 5)])
def test_a_page_costs_a_few_times_the_simplest_one(server, path, query, most):
    app = WebApp(WebOptions({"main": server}))

    def page(path: str, query: str = "") -> None:
        assert app.respond(Request("GET", path, query=query, headers=HEADERS, body=b"")).status == 200

    found = ratio(lambda: page(path, query), lambda: page("/log"), 30)
    assert found < most


def test_counting_costs_little_more_than_a_plain_scan(server, raw_redis):
    def plain() -> None:
        found = [job for job, _ in raw_redis.zrange("dead", 0, -1, withscores=True) if json.loads(job)["class"] == "No"]
        assert not found

    dead = DeadSet(server)
    found = ratio(lambda: dead.count(JobFilter(name="Mail")), plain, 4)
    assert found < 10
