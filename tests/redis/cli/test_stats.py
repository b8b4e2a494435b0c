"""``offsider stats``: the numbers of Sidekiq's monitor command, for people and for programs."""

from __future__ import annotations

import json
import time

import pytest
from click.testing import CliRunner

from offsider import __version__
from offsider.cli import stats
from offsider.cli.main import main
from offsider.core.errors import RedisUnavailable
from tests.redis.inspector.examined import OURS, payload, push, register


@pytest.fixture(autouse=True)
def here(redis_url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)


@pytest.fixture
def stocked(raw_redis):
    register(raw_redis, tag="shop", labels=["blue"], started_at=time.time() - 200, rss=153_600)
    push(raw_redis, "A", "B")
    raw_redis.mset({"stat:processed": 12_345, "stat:failed": 67})
    raw_redis.zadd("retry", {payload("A"): 9e9})


def call(*words: str):
    return CliRunner().invoke(main, ["stats", *words])


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
    assert processes.splitlines()[:2] == ["Processes: 1 worker, 5 threads, 1 busy", f"  {OURS} [shop] blue"]
    assert "    Started: 3 min 2" in processes
    assert "    Threads: 5 (1 busy)\n    Memory: 150 MB\n    Queues: default" in processes
    assert queues.splitlines()[1].split() == ["NAME", "SIZE", "LATENCY"]
    assert queues.splitlines()[2].split() == ["default", "2", "0.00"]


def test_the_shard_of_a_worker_is_printed(raw_redis):
    register(raw_redis, shard="bulk")
    assert "    Shard: bulk\n" in call("processes").output
    assert json.loads(call("processes", "--json").output)[0]["shard"] == "bulk"


def test_a_quiet_worker_is_marked(raw_redis):
    register(raw_redis, quiet="true")
    assert f"  {OURS} quiet\n" in call("processes").output


@pytest.mark.parametrize("view", stats.VIEWS)
def test_each_view_can_be_had_alone_and_as_json(stocked, view):
    assert call(view).exit_code == 0
    reported = json.loads(call(view, "--json").output)
    assert reported
    if view == "all":
        assert list(reported) == ["version", "overview", "processes", "queues"]


def test_programs_read_json(stocked):
    reported = json.loads(call("--json").output)
    assert reported["overview"]["processed"] == 12_345
    assert reported["overview"]["default_queue_latency_seconds"] == 0
    assert reported["processes"][0]["identity"] == OURS
    assert reported["queues"] == [
        {"name": "default", "size": 2, "latency_seconds": 0.0, "paused": False, "served": True}
    ]
    assert reported["version"]["store"] in ("redis", "valkey")


def test_stored_data_cannot_inject_terminal_sequences(raw_redis):
    register(raw_redis, tag="\x1b[2J", labels=["\x07"], queues=["\x1b]0;x"])
    push(raw_redis, "A", queue="\x1b[31m")
    assert "\x1b" not in call().output
    assert "\x07" not in call().output


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_odd_letters_are_shown_somehow(raw_redis, words):
    register(raw_redis, tag="\ud800", labels=["日本"])
    result = call("processes", *words)
    assert result.exit_code == 0, result.output
    assert r"\ud800" in result.output


def test_an_empty_server_is_not_an_error():
    result = call()
    assert result.exit_code == 0
    assert "Processes: 0 workers" in result.output


def test_a_server_that_is_away_is_one_line(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://localhost:1")
    result = call()
    assert result.exit_code == 1
    assert result.output.startswith("offsider: redis://localhost:1")


def test_an_unknown_view_is_a_usage_error():
    assert call("everything").exit_code == 2


def test_watching_refreshes_and_survives_an_outage(capsys):
    answers = iter(["first", RedisUnavailable("away", ambiguous=False), "second"])

    def render() -> str:
        answer = next(answers, None)
        if answer is None:
            raise KeyboardInterrupt
        if isinstance(answer, Exception):
            raise answer
        return answer

    stats.keep_showing(render, 0.001)
    assert capsys.readouterr().out == "first\naway\n(retrying every 0.00 s)\nsecond\n"


def test_watching_ends_well_at_ctrl_c(monkeypatch, stocked):
    monkeypatch.setattr(stats, "keep_showing", lambda render, pause_seconds: print(render(), pause_seconds))
    result = call("overview", "--watch", "3")
    assert result.exit_code == 0
    assert "12,345" in result.output
    assert result.output.endswith("3.0\n")


def test_one_of_several_servers_is_selected(stocked, other_url, tmp_path):
    (tmp_path / "offsider.toml").write_text(f'[servers.bulk]\nurl = "{other_url}"\n')
    counts = [json.loads(call("overview", "--json", *words).output) for words in ((), ("--server", "bulk"))]
    assert [each["processed"] for each in counts] == [12_345, 0]


def test_memory_is_shown_by_family_of_keys(stocked, monkeypatch):
    lines = [line.split() for line in call("--memory").output.splitlines()]
    assert lines[0] == ["KEYS", "COUNT", "MEMORY"]
    assert ["stat:*", "2", "0.0", "MB"] in lines
    assert json.loads(call("--memory", "--json").output)["families"]["stat:*"]["keys"] == 2
    monkeypatch.setattr(stats, "memory_by_family", lambda here, seconds: ([], False))
    assert "The scan stopped after 10 s" in call("--memory").output
