"""``offsider limits``: the table, and changing limits."""

from __future__ import annotations

import json
import sys

import pytest
from click.testing import CliRunner

from offsider.cli.main import main
from offsider.client import Client
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.ext.concurrency_limits import Limits, store
from offsider.ext.concurrency_limits.store import Names
from offsider.ext.unique import Unique
from offsider.storage import processes
from tests.redis.inspector.examined import OURS, register


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    yield config
    Installation.of(config).close()


@pytest.fixture(autouse=True)
def here(redis_url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)


@pytest.fixture
def held(config, raw_redis):
    redis = Installation.of(config).redis
    names = Names(redis.keys)
    store.declare(redis, {"HardJob": 3}, {"OldJob": "HardJob"}, config.clock.now())
    raw_redis.sadd(redis.keys.places, names.held("HardJob"))
    for number in range(1200):
        raw_redis.lpush(names.held("HardJob"), encode({"class": "HardJob", "args": [], "jid": str(number)}))


def call(*words: str, typed: str | None = None):
    return CliRunner().invoke(main, ["limits", *words], input=typed)


def test_without_limits_a_note_is_printed(config):
    assert (call().exit_code, call().output) == (0, "No class has a concurrency limit.\n")
    assert json.loads(call("--json").output) == []


def test_the_table_shows_the_effective_limits(config, held):
    Limits(config).pause("HardJob")
    Limits(config).set("Other", 7)
    Limits(config).set("Free", 0)
    result = call()
    assert result.exit_code == 0, result.output
    assert [line.split() for line in result.output.splitlines()] == [
        ["CLASS", "LIMIT", "IN", "USE", "HELD"],
        ["Free", "none", "0", "0", "set", "at", "run", "time"],
        ["HardJob", "paused", "0", "1,200"],
        ["Other", "7", "0", "0", "set", "at", "run", "time"],
    ]


def test_programs_read_json(config, held):
    (limit,) = json.loads(call("--json").output)
    assert limit == {
        "name": "HardJob",
        "limit": 3,
        "declared": 3,
        "set_to": None,
        "paused": False,
        "in_use": 0,
        "held": 1200,
        "server": "main",
        "rate": "",
        "keys": 0,
    }


def test_limits_are_set_and_reset(config, held):
    assert call("set", "HardJob", "5").output == "HardJob: limit 5\n"
    assert Limits(config).find("HardJob").limit == 5
    assert call("set", "HardJob", "0").output == "HardJob: no limit\n"
    assert call("unset", "HardJob", "Other").output == "HardJob: limit 3, as in code\nOther: no limit in code\n"
    assert Limits(config).find("HardJob").limit == 3


@pytest.mark.parametrize("number", ["-1", "many", "1000001"])
def test_an_invalid_limit_is_refused(config, number):
    assert call("set", "HardJob", number).exit_code != 0


def test_classes_are_paused_and_resumed(config):
    assert call("pause", "A", "B").output == "A: paused\nB: paused\n"
    assert call("pause", "A").output == "A: already paused\n"
    assert call("resume", "A").output == "A: resumed\n"
    assert call("resume", "A").output == "A: was not paused\n"


def test_held_jobs_are_moved_to_quarantine_or_deleted(config, held):
    assert call("clear", "HardJob").output == "HardJob: 1200 jobs quarantined\n"
    assert call("clear", "HardJob", "--delete", "-y").output == "HardJob: 0 jobs deleted\n"


def test_other_extensions_of_the_application_see_deleted_jobs(config, raw_redis, tmp_path, monkeypatch):
    """The lock of a unique job is freed."""
    (tmp_path / "limits_app.py").write_text(
        "from offsider.ext.unique import Unique\n\ndef configure(config):\n    config.use(Unique())\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    config.use(Unique())
    client = Client(config)
    jid = client.push({"class": "HardJob", "args": [], "unique_for": 600})
    raw_redis.sadd("offsider:places", "offsider:limits:jobs:HardJob")
    raw_redis.lmove("queue:default", "offsider:limits:jobs:HardJob")
    assert not client.push({"class": "HardJob", "args": [], "unique_for": 600})
    assert call("clear", "HardJob", "--delete", "-r", "limits_app").output == "HardJob: 1 job deleted\n"
    assert client.push({"class": "HardJob", "args": [], "unique_for": 600}) not in ("", jid)
    sys.modules.pop("limits_app", None)


def test_on_a_terminal_it_asks_before_it_clears(config, held, monkeypatch):
    monkeypatch.setattr("offsider.cli.limits.asks", lambda: True)
    result = call("clear", "HardJob", "--delete", typed="n\n")
    assert "Delete 1200 held jobs of HardJob?" in result.output
    assert Limits(config).find("HardJob").held == 1200


@pytest.fixture
def bulk(config, tmp_path, tag):
    """A second server in the file, and the limits of it alone."""
    (tmp_path / "offsider.toml").write_text(f'[servers.bulk]\nurl = "{config.redis.url}"\nkey_prefix = "{tag}bulk:"\n')
    config.add_server("bulk", url=config.redis.url, key_prefix=f"{tag}bulk:")
    return Limits(Installation.of(config, "bulk"), everywhere=False)


def test_all_servers_are_changed_and_shown(config, bulk):
    call("set", "HardJob", "2")
    bulk.pause("HardJob")
    assert [line.split() for line in call().output.splitlines()] == [
        ["CLASS", "LIMIT", "IN", "USE", "HELD", "SERVER"],
        ["HardJob", "2", "0", "0", "main", "set", "at", "run", "time"],
        ["HardJob", "paused", "0", "0", "bulk", "set", "at", "run", "time"],
    ]


def test_with_one_server_away_the_others_are_changed_and_shown(config, tmp_path):
    (tmp_path / "offsider.toml").write_text('[servers.bulk]\nurl = "redis://127.0.0.1:1"\n')
    paused = call("pause", "A", "B")
    assert paused.exit_code == 1
    assert "A: changed on main, not on bulk: " in paused.output
    assert [limit.name for limit in Limits(config) if limit.paused] == ["A", "B"]
    shown = call()
    assert shown.exit_code == 1
    assert "A  " in shown.output
    assert "127.0.0.1:1" in shown.output


def test_an_alias_selects_its_class_and_an_unknown_name_is_refused(config, held, raw_redis):
    register(raw_redis)
    processes.publish_jobs(Installation.of(config).redis, OURS, {"HardJob": "", "OldJob": ""})
    assert call("pause", "OldJob").output == "HardJob: paused\n"
    outcome = call("pause", "HardJbo")
    assert "no live worker declares this class" in outcome.output
    assert "HardJob" in outcome.output


def test_another_server_is_asked_for_by_its_name(config, tmp_path, tag):
    (tmp_path / "offsider.toml").write_text(f'[servers.bulk]\nurl = "{config.redis.url}"\nkey_prefix = "{tag}bulk:"\n')
    assert call("--server", "bulk", "set", "HardJob", "2").exit_code == 0
    assert list(Limits(config)) == []
    assert "HardJob" in call("--server", "bulk").output


def test_an_unreachable_server_is_reported(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")
    result = call()
    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.output
