"""``offsider mark``."""

from __future__ import annotations

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.inspector import Deploys
from tests.redis.cli.commands import command

mark = command("mark")


@pytest.fixture(autouse=True)
def application(folder, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(folder.parent))


def test_a_deploy_is_recorded_once_for_many_hosts(config, raw_redis):
    first, second = (mark("v1 \x1b[31m") for _ in range(2))
    assert (first.exit_code, first.stdout) == (0, "marked: v1 \\x1b[31m\n")
    assert (second.exit_code, second.stdout) == (0, "not recorded: v1 \\x1b[31m was recorded in the last minute\n")
    now = config.clock.now()
    assert [found.label for found in Deploys(config).marks(now - 120, now)] == ["v1 \x1b[31m"]


def test_a_minute_with_another_deploy_is_not_marked_again(config, raw_redis):
    now = config.clock.now()
    for minute in (now, now + 60):  # the next one, too: the command may start in it
        assert Deploys(config).mark(f"v1 {minute}", at=minute)
    ended = mark("v2")
    assert (ended.exit_code, ended.stdout) == (0, "not recorded: this minute already has another deploy\n")


def test_without_a_label_and_a_commit_the_error_has_the_next_step():
    ended = mark()
    assert ended.exit_code == 1
    assert "pass a label" in ended.stderr


def test_a_deploy_is_noted_on_every_server_of_the_configuration(redis_url, raw_redis, tmp_path, other_url):
    (tmp_path / "offsider.toml").write_text(f'servers.bulk.url = "{other_url}"\n')
    assert mark("v1").stdout == "marked: v1\n"
    config = Config.load(tmp_path / "offsider.toml", environ={"REDIS_URL": redis_url})
    now = config.clock.now()
    for server in ("main", "bulk"):
        assert [found.label for found in Deploys(Installation.of(config, server)).marks(now - 120, now)] == ["v1"]
