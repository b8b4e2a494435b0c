"""``offsider controls``: the tables, and setting and ending controls."""

from __future__ import annotations

import getpass
import json

import pytest
from click.testing import CliRunner

from offsider.cli.main import main
from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.inspector import Controls
from offsider.storage import control_table, slots
from offsider.storage.slots import Rate
from tests.redis.inspector.examined import OURS, register


@pytest.fixture(autouse=True)
def here(redis_url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)


@pytest.fixture
def held(config, raw_redis):
    """A class with limits in code, a slot in use and two held jobs."""
    redis = Installation.of(config).redis
    slots.declare(redis, {"Hard": (3, Rate(5, 60_000)), "Fast": (0, Rate(1, 1000))}, config.clock.now())
    raw_redis.sadd("offsider:places", redis.keys.held("Hard"))
    raw_redis.sadd("offsider:groups", "Hard")
    raw_redis.zadd("offsider:slots:Hard", {"host:1:a 1 j": 1_700_000_000_000})
    for jid in "ab":
        raw_redis.lpush(redis.keys.held("Hard"), encode({"class": "Hard", "args": [], "jid": jid, "queue": "default"}))


def call(*words: str, typed: str | None = None):
    return CliRunner().invoke(main, ["controls", *words], input=typed)


def test_the_tables_show_controls_and_groups(config, held):
    assert "No controls are set." in call().output
    Controls(config).drop("HardJob", by="ann", reason="the bank is down")
    Controls(config).defer("app.Export", 120, lasting=3600)
    control_table.count(Installation.of(config).redis, {"HardJob": 1234})
    result = call()
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "HardJob dropped 0 s ago - 1,234 the bank is down (ann)" in lines
    assert any(line.startswith("app.Export deferred by 120 s 0 s ago in ") for line in lines)
    assert lines[-2:] == ["Fast 1 in 0:00:01 0 0", "Hard 3, 5 in 0:01:00 1 2"]
    assert json.loads(call("--json").output)["main"]["blocks"][0]["rows"][0][0]["text"] == "HardJob"


def test_a_server_without_the_control_is_named(config, tmp_path, tag):
    Controls(config).drop("HardJob")
    (tmp_path / "offsider.toml").write_text(f'[servers.twin]\nurl = "{config.redis.url}"\nkey_prefix = "{tag}twin:"\n')
    assert "not set on twin" in call().output


@pytest.mark.parametrize(
    "words, described",
    [
        (("run", "HardJob"), "run without a limit"),
        (("limit", "HardJob", "3"), "limited to 3"),
        (("defer", "HardJob", "--delay", "90s"), "deferred by 90 s"),
        (("drop", "HardJob"), "dropped"),
        (("drop", "HardJob", "--delete", "--yes"), "deleted"),
    ],
)
def test_a_control_is_set_with_its_author_and_ended(config, words, described):
    result = call(*words, "--for", "2h", "--reason", "the bank is down")
    assert (result.exit_code, result.output) == (0, f"HardJob: jobs are now {described}\n")
    (control,) = Controls(config)
    assert control.by.startswith(f"cli {getpass.getuser()}@")
    assert (control.reason, control.until) == ("the bank is down", control.since + 7200)
    ended = call("resume", "HardJob")
    assert (ended.exit_code, ended.output) == (0, "Resumed: HardJob\n")
    assert list(Controls(config)) == []


def test_several_subjects_are_set_though_one_is_invalid(config):
    result = call("drop", "HardJob", "urgent=1", "B[a/50%25]")
    assert result.exit_code == 1
    assert "unknown predicate 'urgent'" in result.stderr
    assert [control.subject for control in Controls(config)] == ["B[a/50%25]", "HardJob"]
    unset = call("resume", "HardJb", "HardJob", "B[a/50%25]")
    assert unset.exit_code == 1
    assert "no control is set for HardJb (did you mean" in unset.stderr
    assert list(Controls(config)) == []


def test_deleting_needs_a_confirmation(config):
    assert call("drop", "HardJob", "--delete", typed="n\n").exit_code == 1
    assert list(Controls(config)) == []
    assert call("drop", "HardJob", "--delete", typed="y\n").exit_code == 0
    assert [control.keep for control in Controls(config)] == [False]


def test_a_class_that_no_worker_declares_is_set_with_a_warning(config, raw_redis):
    register(raw_redis, OURS)
    raw_redis.hset(OURS, "jobs", '{"app.Export": "5ca1ab1e"}')
    result = call("pause", "app.Exprt", "app.Export", "urgency=low")
    assert result.exit_code == 0
    assert result.stderr.count("no live worker declares this class") == 1
    assert "did you mean 'app.Export'" in result.stderr
