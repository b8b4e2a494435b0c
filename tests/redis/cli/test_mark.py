"""``offsider mark``."""

from __future__ import annotations

import subprocess
import sys

from offsider import Config
from offsider.config.installation import Installation
from offsider.inspector import Deploys


def mark(redis_url: str, *words: str, folder=None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "offsider", "mark", *words]
    environ = {"OFFSIDER_REDIS_URL": redis_url, "GIT_CEILING_DIRECTORIES": str(folder.parent), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_a_deploy_is_recorded_once_for_many_hosts(redis_url, raw_redis, tmp_path):
    first, second = (mark(redis_url, "v1 \x1b[31m", folder=tmp_path) for _ in range(2))
    assert (first.returncode, first.stdout) == (0, "marked: v1 \\x1b[31m\n")
    assert (second.returncode, second.stdout) == (0, "not recorded: v1 \\x1b[31m was recorded in the last minute\n")
    config = Config()
    config.redis.url = redis_url
    now = config.clock.now()
    assert [found.label for found in Deploys(config).marks(now - 120, now)] == ["v1 \x1b[31m"]


def test_a_minute_with_another_deploy_is_not_marked_again(redis_url, raw_redis, tmp_path):
    config = Config()
    config.redis.url = redis_url
    now = config.clock.now()
    for minute in (now, now + 60):  # the next one, too: the command may start in it
        assert Deploys(config).mark(f"v1 {minute}", at=minute)
    ended = mark(redis_url, "v2", folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "not recorded: this minute already has another deploy\n")


def test_without_a_label_and_a_commit_the_error_has_the_next_step(redis_url, tmp_path):
    ended = mark(redis_url, folder=tmp_path)
    assert ended.returncode == 1
    assert "pass a label" in ended.stderr


def test_a_server_that_is_away_is_a_message(tmp_path):
    ended = mark("redis://127.0.0.1:1", "v1", folder=tmp_path)
    assert ended.returncode == 1
    assert "cannot be reached" in ended.stderr


def test_a_deploy_is_noted_on_every_server_of_the_configuration(redis_url, raw_redis, tmp_path, other_url):
    (tmp_path / "offsider.toml").write_text(f'servers.bulk.url = "{other_url}"\n')
    assert mark(redis_url, "v1", folder=tmp_path).stdout == "marked: v1\n"
    config = Config.load(tmp_path / "offsider.toml", environ={"REDIS_URL": redis_url})
    now = config.clock.now()
    for server in ("main", "bulk"):
        assert [found.label for found in Deploys(Installation.of(config, server)).marks(now - 120, now)] == ["v1"]
