"""``offsider quiet``, ``stop`` and ``dump``: the selected workers, and the signals left for them in Redis."""

from __future__ import annotations

import json

import pytest
import redis

from offsider.config.default import set_default_config
from tests.redis.cli.commands import command

call = command()

WEB_1, WEB_2, OTHER = "web-1:17:0123456789ab", "web-1:18:ab0123456789", "db-7:17:fedcba987654"


@pytest.fixture(autouse=True)
def application(folder, raw_redis):
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


@pytest.mark.parametrize("word, signal", [("quiet", b"TSTP"), ("stop", b"TERM"), ("dump", b"TTIN")])
def test_one_worker_gets_its_signal_and_is_shown(word, signal, left):
    result = call(word, WEB_1)
    assert result.exit_code == 0, result.output
    assert left() == {WEB_1: [signal]}
    [effect, last] = result.output.splitlines()
    assert effect.startswith(f"{WEB_1} {'logs' if word == 'dump' else 'stops'}")
    assert last == "1 signaled: workers act within 3 s, Sidekiq processes within 10 s"


@pytest.mark.parametrize("part", [":17:01", "web-1:17", ":0123"])
def test_a_part_that_only_one_has_is_enough(part, left):
    assert call("quiet", part).exit_code == 0
    assert left() == {WEB_1: [b"TSTP"]}


@pytest.mark.parametrize(
    "words, message",
    [
        (["web-1"], f"web-1 matches several workers: {WEB_1}, {WEB_2}"),
        (["web-1:17:0123456789ac"], f"no registered worker matches web-1:17:0123456789ac (did you mean '{WEB_1}'?)"),
        (["0123446789ab"], "no registered worker matches 0123446789ab (did you mean '0123456789ab'?)"),
        (["?"], f"no registered worker matches ?: {OTHER}, {WEB_1}, {WEB_2}"),
        (["--host", "web-2"], "no worker is registered on the host web-2 (did you mean 'web-1'?)"),
        (["--host", "x"], "no worker is registered on the host x: db-7, web-1"),
    ],
)
def test_a_target_that_is_not_one_worker_names_similar_ones(words, message, left):
    result = call("stop", *words)
    assert (result.exit_code, result.output) == (1, f"offsider: {message}\n")
    assert left() == {}


def test_a_host_means_all_its_workers(left):
    result = call("quiet", "--host", "web-1")
    assert result.exit_code == 0
    assert left() == {WEB_1: [b"TSTP"], WEB_2: [b"TSTP"]}
    assert "2 signaled" in result.output


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
    assert left() == {identity: [b"TERM"] for identity in (WEB_1, WEB_2, OTHER)}
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
