"""Several servers side by side."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from offsider.web import turns
from offsider.web.app import WebApp
from offsider.web.options import WebOptions
from offsider.web.pages import servers
from offsider.web.request import Request
from offsider.wiring.config import Config
from tests.waiting import wait_for


@pytest.fixture
def hanging():
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = Config()
        config.redis.url = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        config.redis.socket_timeout_seconds = 0.5
        config.redis.connect_timeout_seconds = 0.5
        yield config


def test_one_that_hangs_keeps_nobody_waiting(config, hanging, monkeypatch):
    monkeypatch.setattr(servers, "PATIENCE_SECONDS", 0.05)
    app = WebApp(WebOptions({"main": config, "hangs": hanging}))
    request = Request("GET", "/servers", headers={"host": "localhost", "accept": "application/json"})
    main = wait_for(lambda: (told := json.loads(app.respond(request).body)["servers"])[0]["stats"] and told)
    assert [server["error"] for server in main] == ["", "no answer within 0.05 s"]


def test_a_crowd_before_one_server_leaves_the_pages_of_the_others(config, hanging, monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 0.01)
    hanging.redis.client_pool_size = 1
    entered, go_on = threading.Event(), threading.Event()

    def authorize(visitor, action):
        if visitor.server == "hangs" and not entered.is_set():
            entered.set()
            go_on.wait(60)
        return True

    app = WebApp(WebOptions({"main": config, "hangs": hanging}, authorize=authorize))

    def ask(path):
        return app.respond(Request("GET", path, headers={"host": "localhost", "accept": "text/html"}))

    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(ask, "/@hangs/queues")
        assert entered.wait(60)
        crowded = ask("/@hangs/queues")
        others = ask("/queues")
        go_on.set()
        assert (crowded.status, dict(crowded.headers)["retry-after"]) == (503, "2")
        assert b"Too many requests wait for this server" in crowded.body
        assert others.status == 200
        assert first.result(60).status == 503


def test_one_that_does_not_answer_hides_no_other(config):
    gone = Config()
    gone.redis.url = "redis://:secret@127.0.0.1:1/0"
    app = WebApp(WebOptions({"main": config, "gone <b>": gone}))

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
