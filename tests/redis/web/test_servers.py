"""Several servers side by side."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.screens import counters
from offsider.web.app import WebApp
from offsider.web.mounting import named
from offsider.web.page_request import WebOptions
from offsider.web.request import Request
from tests.redis.fleet.test_shards import add_jobs, add_process, config_of, nothing_declared
from tests.screen_tables import rows
from tests.waiting import wait_for

__all__ = ["config_of", "nothing_declared"]

SHARDS = '[shards.near]\nqueues = ["a"]\n[shards.far]\nqueues = ["c"]\nserver = "other"\n'


@pytest.fixture
def hanging():
    """A server that accepts connections and never replies."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = Config()
        config.redis.url = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        config.redis.socket_timeout_seconds = 0.5
        yield config


def fleet(config):
    """The tables of servers and shards on the page of the fleet."""
    app = WebApp(WebOptions(named(config)))
    request = Request("GET", "/fleet", headers={"host": "localhost", "accept": "application/json"})
    page = json.loads(app.respond(request).body)
    return rows(page, "Servers"), rows(page, "Shards"), json.dumps(page)


def test_a_hanging_server_does_not_delay_the_page(config, hanging, monkeypatch):
    monkeypatch.setattr(counters, "TIMEOUT_SECONDS", 0.05)
    config.add_server("hangs", url=hanging.redis.url)
    states = wait_for(lambda: (found := [row["State"] for row in fleet(config)[0]])[0].startswith("not") and found)
    assert states == ["not the bottleneck", "no response within 0.05 s"]


def test_requests_to_a_hanging_server_leave_threads_for_others(config, hanging, monkeypatch):
    monkeypatch.setattr("offsider.web.app.TIMEOUT_SECONDS", 0.01)
    hanging.redis.client_pool_size = 1
    entered, go_on = threading.Event(), threading.Event()

    def authorize(visitor, action):
        if visitor.server == "hangs" and not entered.is_set():
            entered.set()
            go_on.wait(60)
        return True

    app = WebApp(WebOptions({"main": Installation.of(config), "hangs": Installation.of(hanging)}, authorize=authorize))

    def ask(path):
        return app.respond(Request("GET", path, headers={"host": "localhost", "accept": "text/html"}))

    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(ask, "/@hangs/fleet")
        assert entered.wait(60)
        crowded = ask("/@hangs/fleet")
        others = ask("/fleet")
        go_on.set()
        assert (crowded.status, dict(crowded.headers)["retry-after"]) == (503, "2")
        assert b"Too many requests are waiting for this server" in crowded.body
        assert others.status == 200
        assert first.result(60).status == 503


def test_an_unreachable_server_does_not_hide_others_nor_show_its_password(config_of, raw_redis):
    add_process(raw_redis, 1, "near", "a", concurrency=3, busy=2, quiet=True)
    add_jobs(raw_redis, "a", 500, 20)
    config = config_of(SHARDS, "redis://:secret@127.0.0.1:1/0")
    servers, shards, text = wait_for(lambda: (found := fleet(config))[0][1]["State"] != "no response" and found)
    assert servers[0]["State"] == "not the bottleneck"
    near, far = shards
    assert (near["Shard"], near["Processes"], near["Busy"], near["Waiting"]) == ("near", "0 and 1 quiet", 0, 2)
    assert near["Wait"] == pytest.approx(500, abs=90)
    assert (far["Shard"], far["Server"]) == ("far", "other")
    assert far["Processes"]
    assert "secret" not in text
