"""``offsider switches``: the table, and setting and clearing."""

from __future__ import annotations

import getpass
import json

import pytest
from click.testing import CliRunner

from offsider.cli.main import main
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.inspector import Switches
from offsider.storage import processes, switches
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


def call(*words: str, typed: str | None = None):
    return CliRunner().invoke(main, ["switches", *words], input=typed)


def test_without_a_switch_a_note_is_printed(config):
    result = call()
    assert (result.exit_code, result.output) == (0, "No kill switches are set.\n")
    assert json.loads(call("--json").output) == []


def test_the_table_shows_mode_time_and_reason_of_each_switch(config):
    Switches(config).drop("HardJob", by="ann", reason="the bank is down")
    Switches(config).defer("app.Export", 120, lasting=3600)
    switches.count(Installation.of(config).redis, {"HardJob": 1234})
    result = call()
    assert result.exit_code == 0, result.output
    head, hard, why, export = result.output.splitlines()
    assert head.split("  ")[0] == "CLASS"
    assert hard.split() == ["HardJob", "dropped", "0", "s", "ago", "-", "1,234"]
    assert why == "    by ann: the bank is down"
    assert export.startswith("app.Export  deferred by 2 min 0 s  0 s ago  in ")


def test_a_server_without_the_switch_is_named(config, tmp_path, tag):
    Switches(config).drop("HardJob")
    (tmp_path / "offsider.toml").write_text(f'[servers.twin]\nurl = "{config.redis.url}"\nkey_prefix = "{tag}twin:"\n')
    assert "    not set on twin: set it again" in call().output.splitlines()


def test_a_server_with_another_switch_is_named(config, tmp_path, tag):
    (tmp_path / "offsider.toml").write_text(f'[servers.twin]\nurl = "{config.redis.url}"\nkey_prefix = "{tag}twin:"\n')
    call("defer", "HardJob")
    Switches(config).drop("HardJob")
    assert "    different on twin: set it again" in call().output.splitlines()


def test_while_a_server_is_away_the_others_are_worked_and_shown(config, tmp_path):
    (tmp_path / "offsider.toml").write_text('[servers.away]\nurl = "redis://127.0.0.1:1"\n')
    result = call("drop", "HardJob", "SoftJob")
    assert result.exit_code == 1
    for name in ("HardJob", "SoftJob"):
        assert f"the switch of {name} was changed on main, but not on away: repeat this" in result.output
    assert [switch.name for switch in Switches(config)] == ["HardJob", "SoftJob"]
    shown = call()
    assert shown.exit_code == 1
    assert "HardJob" in shown.stdout
    assert "cannot read the switches of away: " in shown.stderr
    assert len(json.loads(call("--json").stdout)) == 2


def test_one_class_that_is_refused_leaves_the_others(config):
    call("defer", "HardJob")
    result = call("clear", "Nothing", "HardJob")
    assert result.exit_code == 1
    assert "no kill switch is set for Nothing" in result.output
    assert "HardJob: jobs run again" in result.output
    assert call("drop", "x" * 501, "HardJob").exit_code == 1
    assert [switch.name for switch in Switches(config)] == ["HardJob"]


def test_programs_read_json(config):
    Switches(config).defer("app.Export", 120)
    [reported] = json.loads(call("--json").output)
    assert (reported["name"], reported["action"], reported["delay_seconds"], reported["until"]) == (
        "app.Export",
        "defer",
        120.0,
        None,
    )


def test_classes_are_switched_off_and_on(config):
    result = call("drop", "HardJob", "app.Export", "--for", "2h", "--reason", "it is broken")
    assert result.exit_code == 0, result.output
    assert result.output == "HardJob: jobs are now dropped\napp.Export: jobs are now dropped\n"
    hard, _ = Switches(config)
    assert (hard.keep, hard.reason, hard.until) == (True, "it is broken", hard.since + 7200)
    assert hard.by.startswith(f"{getpass.getuser()}@")
    assert call("defer", "HardJob", "--delay", "90s").output == "HardJob: jobs are now deferred by 1 min 30 s\n"
    assert call("clear", "HardJob", "app.Export").output == "HardJob: jobs run again\napp.Export: jobs run again\n"
    assert list(Switches(config)) == []


def test_deleting_asks_first(config):
    assert call("drop", "HardJob", "--delete", typed="n\n").exit_code == 1
    assert list(Switches(config)) == []
    assert call("drop", "HardJob", "--delete", typed="y\n").exit_code == 0
    assert call("drop", "app.Export", "--delete", "-y").output == "app.Export: jobs are now deleted\n"
    assert [switch.keep for switch in Switches(config)] == [False, False]


def test_a_name_unknown_to_all_workers_is_reported_but_set(config, raw_redis):
    register(raw_redis)
    processes.publish_jobs(Installation.of(config).redis, OURS, {"HardJob": "5ca1ab1e"})
    assert "no live worker" not in call("drop", "HardJob").output
    result = call("drop", "HardJobs")
    assert "no live worker declares this class (did you mean 'HardJob'?)" in result.output
    assert {switch.name for switch in Switches(config)} == {"HardJob", "HardJobs"}


def test_an_impossible_switch_is_refused_with_the_next_step(config):
    Switches(config).drop("HardJob")
    for words, printed in (
        (("clear", "HardJobs"), "no kill switch is set for HardJobs (did you mean 'HardJob'?)"),
        (("defer", "HardJob", "--delay", "0.5"), "seconds of a switch expects at least 1 s"),
        (("drop", "x" * 501), "name of a switch expects at most 500 characters"),
    ):
        result = call(*words)
        assert result.exit_code == 1
        assert printed in result.output
    assert call("defer", "A", "--delay", "soon").exit_code == 2
    assert call("drop").exit_code == 2


def test_a_server_that_is_away_is_an_error_and_no_traceback(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")
    for words in ((), ("drop", "A"), ("clear", "A")):
        result = call(*words)
        assert result.exit_code == 1
        assert "127.0.0.1:1" in result.output


def test_an_operator_without_a_user_name_is_recorded_as_somebody(config, monkeypatch):
    def nobody() -> str:
        raise OSError("no such user")

    monkeypatch.setattr(getpass, "getuser", nobody)
    call("drop", "HardJob")
    (switch,) = Switches(config)
    assert switch.by.startswith("somebody@")
