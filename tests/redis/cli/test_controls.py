"""``offsider controls``: the tables, and setting and ending controls."""

from __future__ import annotations

import getpass
import json

import pytest
from click.testing import CliRunner

from offsider.cli.main import main
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.inspector import Controls, Quarantine
from offsider.storage import control_table, processes, slots
from offsider.storage.slots import Rate
from tests.redis.inspector.examined import OURS, register


@pytest.fixture
def config(redis_url) -> Config:
    config = Config()
    config.redis.url = redis_url
    return config


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


def test_without_a_control_a_note_is_printed(config):
    result = call()
    assert (result.exit_code, result.output) == (0, "No controls are set.\n")
    assert json.loads(call("--json").output) == {"controls": [], "groups": []}


def test_the_tables_show_controls_and_groups(config, held):
    Controls(config).drop("HardJob", by="ann", reason="the bank is down")
    Controls(config).defer("app.Export", 120, lasting=3600)
    control_table.count(Installation.of(config).redis, {"HardJob": 1234})
    result = call()
    assert result.exit_code == 0, result.output
    head, hard, why, export, _, groups, fast, limited = result.output.splitlines()
    assert head.split("  ")[0] == "SUBJECT"
    assert hard.split() == ["HardJob", "dropped", "0", "s", "ago", "-", "1,234"]
    assert why == "    by ann: the bank is down"
    assert export.startswith("app.Export  deferred by 2 min 0 s  0 s ago  in ")
    assert groups.split("  ")[0] == "GROUP"
    assert fast.split() == ["Fast", "1", "in", "1.00", "s", "0", "0"]
    assert limited.split() == ["Hard", "3,", "5", "in", "1", "min", "0", "s", "1", "2"]
    found = json.loads(call("--json").output)
    assert [one["subject"] for one in found["controls"]] == ["HardJob", "app.Export"]
    assert [(one["name"], one["held"]) for one in found["groups"]] == [("Fast", 0), ("Hard", 2)]


def test_a_server_without_the_control_is_named(config, tmp_path, tag, held):
    Controls(config).drop("HardJob")
    (tmp_path / "offsider.toml").write_text(f'[servers.twin]\nurl = "{config.redis.url}"\nkey_prefix = "{tag}twin:"\n')
    output = call().output
    assert "    not set on twin: set it again" in output.splitlines()
    assert "SERVER" in output
    Controls(config).drop("HardJob", delete=True)
    assert call("hold", "HardJob").exit_code == 0
    control_table.clear(Installation.of(config).redis, "HardJob")


def test_an_unreachable_server_is_reported(config, tmp_path):
    (tmp_path / "offsider.toml").write_text(
        '[servers.away]\nurl = "redis://127.0.0.1:1"\nsocket_timeout_seconds = 0.2\n'
    )
    result = call()
    assert result.exit_code == 1
    assert "cannot read the controls of away" in result.stderr


@pytest.mark.parametrize(
    "words, described",
    [
        (("run", "HardJob"), "run without a limit"),
        (("limit", "HardJob", "3"), "limited to 3"),
        (("hold", "HardJob"), "held"),
        (("pause", "HardJob"), "held"),
        (("defer", "HardJob", "--delay", "90s"), "deferred by 1 min 30 s"),
        (("drop", "HardJob"), "dropped"),
        (("drop", "HardJob", "--delete", "--yes"), "deleted"),
    ],
)
def test_a_control_is_set_with_its_author_and_ended(config, words, described):
    result = call(*words, "--for", "2h", "--reason", "the bank is down")
    assert (result.exit_code, result.output) == (0, f"HardJob: jobs are now {described}\n")
    (control,) = Controls(config)
    assert control.by.startswith(f"{getpass.getuser()}@")
    assert (control.reason, control.until) == ("the bank is down", control.since + 7200)
    ended = call("resume", "HardJob")
    assert (ended.exit_code, ended.output) == (0, "HardJob: the control has ended\n")
    assert list(Controls(config)) == []


def test_several_subjects_are_set_though_one_is_invalid(config):
    result = call("drop", "HardJob", "urgent=1", "B")
    assert result.exit_code == 1
    assert "unknown predicate 'urgent'" in result.stderr
    assert [control.subject for control in Controls(config)] == ["B", "HardJob"]
    unset = call("resume", "HardJb", "HardJob")
    assert unset.exit_code == 1
    assert "no control is set for HardJb (did you mean" in unset.stderr
    assert [control.subject for control in Controls(config)] == ["B"]


def test_deleting_needs_a_confirmation(config):
    assert call("drop", "HardJob", "--delete", typed="n\n").exit_code == 1
    assert list(Controls(config)) == []
    assert call("drop", "HardJob", "--delete", typed="y\n").exit_code == 0
    assert [control.keep for control in Controls(config)] == [False]


def test_a_class_that_no_worker_declares_is_set_with_a_warning(config, raw_redis):
    register(raw_redis, OURS)
    processes.publish_jobs(Installation.of(config).redis, OURS, {"app.Export": "5ca1ab1e"})
    result = call("hold", "app.Exprt", "app.Export", "urgency=low")
    assert result.exit_code == 0
    assert result.stderr.count("no live worker declares this class") == 1
    assert "did you mean 'app.Export'" in result.stderr


def test_held_jobs_are_quarantined_or_deleted(config, held, monkeypatch):
    monkeypatch.setattr("offsider.cli.controls.asks", lambda: True)
    assert call("clear", "Hard", typed="n\n").exit_code == 1
    result = call("clear", "Hard", typed="y\n")
    assert "Quarantine 2 held jobs of Hard?" in result.output
    assert result.output.endswith("Hard: 2 jobs quarantined\n")
    assert len(Quarantine(config)) == 2
    assert call("clear", "Hard", "--delete", "--yes").output == "Hard: 0 jobs deleted\n"
