"""Several servers side by side."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.web import counters
from offsider.web.app import WebApp
from offsider.web.options import WebOptions
from offsider.web.request import Request
from tests.waiting import wait_for


@pytest.fixture
def hanging():
    """A server that accepts connections and never replies."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = Config()
        config.redis.url = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        config.redis.socket_timeout_seconds = 0.5
        config.redis.socket_timeout_seconds = 0.5
        yield config


def test_a_hanging_server_does_not_delay_the_page(config, hanging, monkeypatch):
    monkeypatch.setattr(counters, "TIMEOUT_SECONDS", 0.05)
    app = WebApp(WebOptions({"main": Installation.of(config), "hangs": Installation.of(hanging)}))
    request = Request("GET", "/servers", headers={"host": "localhost", "accept": "application/json"})
    main = wait_for(lambda: (reported := json.loads(app.respond(request).body)["servers"])[0]["stats"] and reported)
    assert [server["error"] for server in main] == ["", "no response within 0.05 s"]


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
        first = thread.submit(ask, "/@hangs/queues")
        assert entered.wait(60)
        crowded = ask("/@hangs/queues")
        others = ask("/queues")
        go_on.set()
        assert (crowded.status, dict(crowded.headers)["retry-after"]) == (503, "2")
        assert b"Too many requests are waiting for this server" in crowded.body
        assert others.status == 200
        assert first.result(60).status == 503


def test_an_unreachable_server_does_not_hide_others(config):
    gone = Config()
    gone.redis.url = "redis://:secret@127.0.0.1:1/0"
    app = WebApp(WebOptions({"main": Installation.of(config), "gone <b>": Installation.of(gone)}))

    def ask(accept):
        return app.respond(Request("GET", "/servers", headers={"host": "localhost", "accept": accept}))

    main, other = json.loads(ask("application/json").body)["servers"]
    assert (main["name"], main["address"], main["error"]) == ("main", "/", "")
    assert main["stats"]["processed"] == 0
    assert other["address"] == "/@gone~20~3cb~3e/"
    assert other["stats"] is None
    assert other["error"]
    page = ask("text/html").body
    assert b"gone &lt;b&gt;" in page
    assert b"secret" not in page
