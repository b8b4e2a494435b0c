"""The page of shards: all of them, on all servers."""

from __future__ import annotations

import json
import re
import socket

import pytest

from offsider.config.installation import Installation
from offsider.web import counters
from offsider.web.app import WebApp
from offsider.web.mounting import named
from offsider.web.options import WebOptions
from offsider.web.request import Request
from tests.redis.fleet.test_shards import add_jobs, add_process, config_of, nothing_declared, other
from tests.waiting import wait_for

__all__ = ["config_of", "nothing_declared", "other"]

SHARDS = '[shards.near]\nqueues = ["a"]\n[shards.far]\nqueues = ["c"]\nserver = "other"\n'


def ask(servers, path="/shards", accept="application/json", root=""):
    app = WebApp(WebOptions(servers))
    answer = app.respond(Request("GET", path, root=root, headers={"host": "localhost", "accept": accept}))
    assert answer.status == 200, answer.body.decode()
    return json.loads(answer.body)["shards"] if accept == "application/json" else answer.body.decode()


def test_shards_of_all_servers_are_shown_with_their_workers_and_jobs(config_of, raw_redis, other):
    add_process(raw_redis, 1, "near", "a", "b<i>", concurrency=3, busy=2, quiet=True)
    add_process(other, 2, "", "x")
    add_jobs(raw_redis, "a", 500, 20)
    near, far, without = ask(named(config_of(SHARDS)))
    assert (near["name"], near["server"], near["address"], near["error"]) == ("near", "main", "/", "")
    assert [near[key] for key in ("processes", "quiet", "concurrency", "busy", "waiting")] == [1, 1, 3, 2, 2]
    assert 499 < near["latency_seconds"] < 600
    assert near["queues"] == [
        {"name": "a", "address": "/queues/a"},
        {"name": "b<i>", "address": "/queues/b~3ci~3e"},
    ]
    assert (far["address"], far["queues"][0]["address"]) == ("/@other/", "/@other/queues/c")
    assert (without["name"], without["server"], without["processes"]) == ("", "other", 1)


def test_the_html_page_links_to_each_server(config_of, raw_redis, other):
    add_process(raw_redis, 1, "near", "b<i>")
    add_jobs(other, "c", 20)
    page = ask(named(config_of(SHARDS)), "/@other/shards", "text/html", root="/jobs")
    assert re.findall(r'<a href="([^"]*)" aria-current="page">', page) == ["/jobs/@other/shards"]
    assert 'href="/jobs/@other/queues/c">c</a>' in page
    assert "b&lt;i&gt;" in page
    assert "No worker" in page


def test_without_shards_there_is_no_tab(config_of, other):
    assert 'href="/shards"' in ask(named(config_of(SHARDS)), "/", "text/html")
    assert 'href="/shards"' not in ask(named(config_of("")), "/", "text/html")
    assert "No shards are configured." in ask(named(config_of("")), accept="text/html")


def test_a_server_that_is_not_shown_here_has_no_link(config_of, other):
    config = config_of(SHARDS)
    near, far = ask({"mine": Installation.of(config)})
    assert (near["address"], far["address"], far["error"]) == ("/", "", "")


@pytest.fixture
def hanging():
    """The address of a server that accepts connections and never replies."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"redis://:secret@127.0.0.1:{listener.getsockname()[1]}/0"


def test_a_hanging_or_unreachable_server_does_not_hide_others(config_of, raw_redis, hanging, monkeypatch):
    monkeypatch.setattr(counters, "TIMEOUT_SECONDS", 0.05)
    add_process(raw_redis, 1, "near", "a")
    gone = named(config_of(SHARDS, "redis://:secret@127.0.0.1:1/0"))
    near, far = wait_for(
        lambda: (reported := ask(gone))[0]["processes"] and "no answer" not in reported[1]["error"] and reported
    )
    assert (near["error"], far["error"] != "", far["url"]) == ("", True, "redis://:***@127.0.0.1:1/0")
    servers = named(config_of(SHARDS, hanging))
    servers["other"].redis.socket_timeout_seconds = 0.5
    reported = wait_for(lambda: (reported := ask(servers))[0]["processes"] and reported)
    assert reported[1]["error"] == "no response within 0.05 s"
    page = ask(servers, accept="text/html")
    assert "Redis is not responding" in page
    assert "secret" not in page


def test_the_number_of_shown_queues_is_limited(config_of, other):
    names = ", ".join(f'"q{number}"' for number in range(40))
    (shard,) = ask(named(config_of(f"[shards.all]\nqueues = [{names}]\n")))
    assert (len(shard["queues"]), shard["more_queues"]) == (30, 10)


def test_each_server_has_its_own_metrics_address(config_of, raw_redis, other):
    raw_redis.set("stat:processed", 5)
    other.set("stat:processed", 7)
    app = WebApp(WebOptions(named(config_of(SHARDS))))

    def processed(path):
        answer = app.respond(Request("GET", path, headers={"host": "localhost", "accept": "text/plain"}))
        return re.search(r"^sidekiq_processed_jobs_total (\S+)$", answer.body.decode(), re.MULTILINE)

    assert float(processed("/metrics")[1]) == 5
    assert float(processed("/@other/metrics")[1]) == 7
