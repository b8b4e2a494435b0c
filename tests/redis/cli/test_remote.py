"""``offsider quiet``, ``stop`` and ``dump``: the selected workers, and the signals left for them in Redis."""

from __future__ import annotations

import json

import pytest
import redis
from click.testing import CliRunner

from offsider.cli.main import main
from offsider.config.default import set_default_config

WEB_1, WEB_2, OTHER = "web-1:17:0123456789ab", "web-1:18:ab0123456789", "db-7:17:fedcba987654"


@pytest.fixture(autouse=True)
def registered(raw_redis, redis_url, monkeypatch, tmp_path):
    """Three workers, one of them on another host."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)
    for identity in (WEB_1, WEB_2, OTHER):
        register(raw_redis, identity)
    yield
    set_default_config(None)


def register(raw_redis, identity: str, **info) -> None:
    host, pid, _ = identity.split(":")
    written = {"hostname": host, "pid": int(pid), "queues": ["high", "low"], "concurrency": 5, "tag": "[shop]"} | info
    raw_redis.sadd("processes", identity)
    raw_redis.hset(identity, mapping={"info": json.dumps(written), "busy": 2, "quiet": "false"})


@pytest.fixture
def left(raw_redis):
    """The signals that were left, by identity."""

    def left() -> dict[str, list[bytes]]:
        keys = raw_redis.keys("*-signals")
        return {key.decode().removesuffix("-signals"): raw_redis.lrange(key, 0, -1) for key in keys}

    return left


def call(*words: str):
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize("word, signal", [("quiet", b"TSTP"), ("stop", b"TERM"), ("dump", b"TTIN")])
def test_one_worker_gets_its_signal_and_is_shown(word, signal, left):
    result = call(word, WEB_1)
    assert result.exit_code == 0, result.output
    assert left() == {WEB_1: [signal]}
    [_, row, last] = result.output.splitlines()
    assert row.split()[:5] == [WEB_1, "[shop]", "2", "of", "5"]
    assert "high, low" in row
    assert last == "1 signaled: workers act within 3 s, Sidekiq processes within 10 s"


@pytest.mark.parametrize("part", [":17:01", "web-1:17", ":0123"])
def test_a_part_that_only_one_has_is_enough(part, left):
    assert call("quiet", part).exit_code == 0
    assert left() == {WEB_1: [b"TSTP"]}


def test_a_whole_identity_wins_over_a_longer_one(raw_redis, left):
    register(raw_redis, WEB_1 + "c")
    assert call("stop", WEB_1).exit_code == 0
    assert left() == {WEB_1: [b"TERM"]}


def test_a_part_of_several_is_refused_with_their_names(left):
    result = call("stop", "web-1")
    assert result.exit_code == 1
    assert result.output == f"offsider: web-1 matches several workers: {WEB_1}, {WEB_2}\n"
    assert left() == {}


def test_an_unknown_identity_names_the_nearest(left):
    result = call("stop", "web-1:17:0123456789ac")
    assert result.exit_code == 1
    assert result.output == (
        f"offsider: no registered worker matches web-1:17:0123456789ac (did you mean '{WEB_1}'?)\n"
    )
    assert "did you mean '0123456789ab'" in call("stop", "0123446789ab").output
    assert left() == {}


def test_an_unknown_identity_lists_all_workers():
    assert call("stop", "?").output == f"offsider: no registered worker matches ?: {OTHER}, {WEB_1}, {WEB_2}\n"


def test_a_host_means_all_its_workers(left):
    result = call("quiet", "--host", "web-1")
    assert result.exit_code == 0
    assert left() == {WEB_1: [b"TSTP"], WEB_2: [b"TSTP"]}
    assert "2 signaled" in result.output


def test_an_unknown_host_names_the_nearest(left):
    result = call("quiet", "--host", "web-2")
    assert result.exit_code == 1
    assert result.output == "offsider: no worker is registered on the host web-2 (did you mean 'web-1'?)\n"
    assert "on the host x: db-7, web-1" in call("quiet", "--host", "x").output
    assert left() == {}


def test_all_means_all(left):
    assert call("dump", "--all").exit_code == 0
    assert left() == {identity: [b"TTIN"] for identity in (WEB_1, WEB_2, OTHER)}


def test_a_long_list_is_cut(raw_redis):
    for number in range(9):
        register(raw_redis, f"host{number}:1:aa")
    assert call("stop", "zz").output.count(":1:aa") == 4
    assert call("stop", "zz").output.endswith(", …\n")


def test_workers_inside_other_programs_are_shown_and_not_signaled(raw_redis, left):
    register(raw_redis, WEB_2, embedded=True)
    result = call("quiet", "--host", "web-1")
    assert result.exit_code == 0
    assert left() == {WEB_1: [b"TSTP"]}
    assert "embedded in another program: not signaled" in result.output
    assert "1 signaled" in result.output

    refused = call("stop", WEB_2)
    assert refused.exit_code == 1
    assert refused.output == (
        f"offsider: {WEB_2} is embedded in another program and accepts no signals: quiet or stop it in that program\n"
    )

    register(raw_redis, WEB_1, embedded=True)
    nobody = call("stop", "--host", "web-1")
    assert nobody.exit_code == 1
    assert "no worker was signaled" in nobody.output


@pytest.mark.parametrize("words", [["--all"], ["--host", "web-1"], [WEB_1]])
def test_without_workers_the_command_fails(words, raw_redis):
    raw_redis.flushall()
    result = call("stop", *words)
    assert (result.exit_code, result.output) == (1, "offsider: no worker is registered\n")


@pytest.mark.parametrize("words", [[], [WEB_1, "--all"], ["--host", "web-1", "--all"]])
def test_exactly_one_target_is_required(words, left):
    result = call("stop", *words)
    assert result.exit_code == 2
    assert "one of IDENTITY, --host H, --all" in result.output
    assert left() == {}


def test_the_server_is_that_of_the_configuration_file(tmp_path, redis_url, monkeypatch, left):
    monkeypatch.delenv("REDIS_URL")
    (tmp_path / "own.toml").write_text(
        f'[redis]\nurl = "redis://localhost:1"\n[environments.production.redis]\nurl = "{redis_url}"\n'
    )
    assert call("quiet", "--all", "-C", "own.toml", "-e", "production").exit_code == 0
    assert len(left()) == 3
    away = call("quiet", "--all", "-C", "own.toml")
    assert away.exit_code == 1
    assert "localhost:1" in away.output
    assert len(away.output.splitlines()) == 1


@pytest.fixture
def elsewhere(other_url, tmp_path):
    """A worker of a second server, which is another database."""
    url = other_url
    (tmp_path / "offsider.toml").write_text(f'[servers.bulk]\nurl = "{url}"\n')
    with redis.Redis.from_url(url) as client:
        register(client, "bulk-1:17:0123456789ab")
        yield client


def test_workers_of_all_servers_are_meant(elsewhere, left):
    assert call("stop", "--all").exit_code == 0
    assert set(left()) == {WEB_1, WEB_2, OTHER}
    assert elsewhere.lrange("bulk-1:17:0123456789ab-signals", 0, -1) == [b"TERM"]


def test_one_server_may_be_named(elsewhere, left):
    assert call("stop", "--all", "--server", "bulk").exit_code == 0
    assert left() == {}
    assert elsewhere.exists("bulk-1:17:0123456789ab-signals")
    assert "there is no server 'bulky'" in call("stop", "--all", "--server", "bulky").output


def test_a_server_that_is_away_keeps_no_worker_of_others_from_its_signal(tmp_path, left):
    (tmp_path / "offsider.toml").write_text('[servers.away]\nurl = "redis://localhost:1"\n')
    result = call("quiet", "--all")
    assert result.exit_code == 1
    assert "cannot reach the workers of away: redis://localhost:1" in result.stderr
    assert set(left()) == {WEB_1, WEB_2, OTHER}
    assert call("dump", "--all", "--server", "main").exit_code == 0
