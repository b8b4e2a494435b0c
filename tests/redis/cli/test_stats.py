"""``offsider stats``: the numbers of Sidekiq's monitor command, for people and for programs."""

from __future__ import annotations

import json
import time

import pytest

from offsider import __version__
from offsider.cli import stats
from tests.redis.cli.commands import command
from tests.redis.inspector.examined import OURS, payload, push, register

pytestmark = pytest.mark.usefixtures("folder")
call = command("stats")


@pytest.fixture
def stocked(raw_redis):
    register(raw_redis, tag="shop", labels=["blue"], started_at=time.time() - 200, rss=153_600)
    push(raw_redis, "A", "B")
    raw_redis.mset({"stat:processed": 12_345, "stat:failed": 67})
    raw_redis.zadd("retry", {payload("A"): 9e9})


def test_everything_at_a_glance(stocked):
    result = call()
    assert result.exit_code == 0, result.output
    version, overview, processes, queues = result.output.split("\n\n")
    assert version.startswith(f"offsider {__version__}, ")
    assert [line.split() for line in overview.splitlines()] == [
        ["Overview"],
        ["Processed", "12,345"],
        ["Failed", "67"],
        ["Busy", "1"],
        ["Enqueued", "2"],
        ["Scheduled", "0"],
        ["Retries", "1"],
        ["Dead", "0"],
        ["Held", "back", "0"],
        ["Processes", "1"],
    ]
    row = processes.splitlines()[-1]
    assert row.startswith(OURS.rpartition(":")[0])
    assert {"shop,", "blue", "1/5", "150", "default"} <= set(row.split())
    assert "3 min 2" in row
    assert queues.splitlines()[1].split()[:4] == ["QUEUE", "SIZE", "WAIT", "IN/S"]
    assert queues.splitlines()[2].split()[:2] == ["default", "2"]


def test_programs_read_json(stocked):
    reported = json.loads(call("--json").output)
    assert reported["processed"] == 12_345
    assert reported["default_queue_latency_seconds"] == 0
    assert reported["store"] in ("redis", "valkey")


def test_odd_letters_are_shown_somehow(raw_redis):
    register(raw_redis, tag="\ud800", labels=["日本"])
    result = call()
    assert result.exit_code == 0, result.output
    assert r"\ud800" in result.output


def test_one_of_several_servers_is_selected(stocked, other_url, tmp_path):
    (tmp_path / "offsider.toml").write_text(f'[servers.bulk]\nurl = "{other_url}"\n')
    counts = [json.loads(call("--json", *words).output) for words in ((), ("--server", "bulk"))]
    assert [each["processed"] for each in counts] == [12_345, 0]


def test_memory_is_shown_by_family_of_keys(stocked, monkeypatch):
    lines = [line.split() for line in call("--memory").output.splitlines()]
    assert lines[0] == ["KEYS", "COUNT", "MEMORY"]
    assert ["stat:*", "2", "0.0", "MB"] in lines
    assert json.loads(call("--memory", "--json").output)["families"]["stat:*"]["keys"] == 2
    monkeypatch.setattr(stats, "memory_by_family", lambda server, seconds: ([], False))
    assert "The scan stopped after 10 s" in call("--memory").output
