"""``offsider queues``: the table, and actions on queues."""

from __future__ import annotations

import importlib
import json
import sys

import pytest
from click.testing import CliRunner

from offsider.cli.main import main
from offsider.client import Client
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.ext.unique import Unique
from offsider.jobs import registry
from tests.redis.cli.commands import command
from tests.redis.inspector.examined import push, register
from tests.screen_tables import rows

pytestmark = pytest.mark.usefixtures("folder")
call = command("queues")


def test_the_table_is_the_screen_and_programs_read_its_json(raw_redis):
    register(raw_redis)
    push(raw_redis, "A")
    push(raw_redis, "A", "B", queue="zebra")
    raw_redis.sadd("paused", "default")
    title, head, zebra, default = call().output.splitlines()
    assert (title, head.split()[:4]) == ("Queues", ["QUEUE", "SIZE", "WAIT", "IN/S"])
    assert zebra.startswith("zebra")
    assert "no worker" in zebra
    assert default.endswith("paused by an unknown client")
    page = json.loads(call("--json").output)["main"]
    assert [(row["Queue"], row["Size"]) for row in rows(page, "Queues")] == [("zebra", 2), ("default", 1)]


def test_queues_are_paused_and_resumed(raw_redis):
    push(raw_redis, "A")
    push(raw_redis, "A", queue="mail")
    assert call("pause", "default", "mail").output == "Paused: default\nPaused: mail\n"
    assert raw_redis.smembers("paused") == {b"default", b"mail"}
    assert call("resume", "mail").output == "Resumed: mail\n"
    assert raw_redis.smembers("paused") == {b"default"}


def test_a_queue_that_a_worker_serves_is_paused_before_its_first_job(raw_redis):
    assert "unknown queue default" in call("pause", "default").output
    register(raw_redis)
    assert call("pause", "default").exit_code == 0
    assert call("resume", "default").exit_code == 0
    assert not raw_redis.exists("paused")


def test_clearing_asks_first(raw_redis):
    push(raw_redis, "A", "B")
    refused = call("clear", "default", typed="n\n")
    assert refused.exit_code == 1
    assert "Permanently delete default with 2 jobs? [y/N]" in refused.output
    assert raw_redis.llen("queue:default") == 2
    assert call("clear", "default", typed="y\n").output.endswith("default: 2 jobs deleted\n")
    assert not raw_redis.exists("queue:default")


UNIQUE = """
from offsider import job
from offsider.ext.unique import Unique

@job(name="shop.sync", unique_until="until_executed")
def sync(number): ...

def configure(config):
    config.use(Unique())
"""
KEPT = "Locks of unique jobs in this queue stay until they expire"


@pytest.fixture
def locked(tmp_path, redis_url, monkeypatch, tag):
    """The name of an application whose unique jobs wait in default: on main, and on the server bulk."""
    (tmp_path / "shop_of_locks.py").write_text(UNIQUE)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "offsider.toml").write_text(f'[servers.bulk]\nurl = "{redis_url}"\nkey_prefix = "{tag}bulk:"\n')
    with registry.isolated():
        monkeypatch.delitem(sys.modules, "shop_of_locks", raising=False)
        yield "shop_of_locks"


@pytest.fixture
def push_again(locked, redis_url, tag):
    """push_again("bulk"): whether the server stores another push of the jobs that wait there already."""
    config = Config()
    config.redis.url = redis_url
    config.add_server("bulk", url=redis_url, key_prefix=f"{tag}bulk:")
    config.use(Unique())
    module = importlib.import_module(locked)

    def push_again(server="main"):
        items = [{"class": module.sync, "args": [n], "server": server} for n in range(2)]
        return [bool(Client(config).push(item)) for item in items]

    assert push_again("main") == push_again("bulk") == [True, True]
    yield push_again
    Installation.of(config).close()


def test_the_locks_of_cleared_jobs_are_freed_by_the_extensions_of_the_application(locked, push_again):
    several = call("clear", "--yes", "-r", locked, "default")
    assert several.exit_code != 0
    assert "default is on main, bulk: choose one of them with --server" in several.output
    assert push_again() == [False, False]
    words = ["clear", "--yes", "-r", locked, "--server", "main", "default"]
    assert call(*words).output == "default: 2 jobs deleted\n"
    assert push_again() == [True, True]


def test_they_are_freed_on_the_server_that_is_cleared(locked, push_again):
    words = ["--server", "bulk", "clear", "--yes", "-r", locked, "default"]
    assert call(*words).output == "default: 2 jobs deleted\n"
    assert push_again("bulk") == [True, True]
    assert push_again("main") == [False, False]


def test_without_the_application_a_note_says_that_locks_are_kept(push_again):
    result = call("clear", "--yes", "--server", "main", "default")
    assert KEPT in result.output
    assert "-r MODULE" in result.output
    assert push_again() == [False, False]


def test_a_missing_application_is_reported_and_the_queue_is_cleared(tmp_path, raw_redis):
    (tmp_path / "offsider.toml").write_text('[worker]\nrequire = "nowhere_to_be_found"\n')
    push(raw_redis, "A")
    result = call("clear", "--yes", "default")
    assert "cannot load the application of worker.require" in result.output
    assert KEPT not in result.output  # no queue has jobs
    assert result.output.endswith("default: 1 job deleted\n")


@pytest.mark.parametrize("word", ["clear", "resume"])
def test_a_misspelt_queue_names_the_nearest(raw_redis, word):
    push(raw_redis, "A")
    result = call(word, "--yes", "defualt")
    assert result.exit_code == 1
    assert result.output == "offsider: unknown queue defualt (did you mean 'default'?)\n"
    assert raw_redis.llen("queue:default") == 1


@pytest.mark.parametrize("words", [[], ["pause", "default"]], ids=["list", "change"])
def test_a_server_that_is_away_is_one_line(monkeypatch, words):
    monkeypatch.setenv("REDIS_URL", "redis://localhost:1")
    result = call(*words)
    assert result.exit_code == 1
    assert result.output.startswith("offsider: redis://localhost:1")


def test_the_server_is_that_of_the_configuration_file(redis_url, monkeypatch, tmp_path, raw_redis):
    monkeypatch.delenv("REDIS_URL")
    (tmp_path / "own.toml").write_text(f'[redis]\nurl = "{redis_url}"\n')
    push(raw_redis, "A")
    assert call("-C", "own.toml", "pause", "default").exit_code == 0
    assert raw_redis.smembers("paused") == {b"default"}


def completed(line: str) -> list[str]:
    """What the shell is offered, as click's own script for bash asks for it."""
    words = line.split(" ")
    environ = {
        "_OFFSIDER_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    result = CliRunner().invoke(main, env=environ, prog_name="offsider")
    return [row.partition(",")[2] for row in result.output.splitlines() if row]


def test_the_shell_completes_words_options_and_names_of_queues(raw_redis, monkeypatch):
    push(raw_redis, "A", queue="mail")
    push(raw_redis, "A", queue="main")
    push(raw_redis, "A", queue="low")
    assert {"top", "stats", "queues", "doctor"} <= set(completed("offsider "))
    assert sorted(completed("offsider st")) == ["stats", "stop"]
    assert {"list", "show", "pause", "resume", "clear", "move"} == set(completed("offsider queues "))
    assert completed("offsider queues pause ma") == ["mail", "main"]
    assert "--json" in completed("offsider doctor --")
    monkeypatch.setenv("REDIS_URL", "redis://localhost:1")
    assert completed("offsider queues pause ma") == []


def test_the_jobs_of_a_queue_move(raw_redis):
    push(raw_redis, "A", "B", queue="low")
    result = call("move", "low", "high")
    assert (result.exit_code, result.output) == (0, "2 jobs moved from low to high\n")
    assert (raw_redis.llen("queue:low"), raw_redis.llen("queue:high")) == (0, 2)
    result = call("move", "lwo", "high")
    assert result.exit_code == 1
    assert "unknown queue lwo" in result.output
    result = call("move", "low", "high", "--to-server", "bulk")
    assert result.exit_code == 1
    assert "bulk" in result.output


def test_a_move_asks_first_on_a_terminal(raw_redis, monkeypatch):
    monkeypatch.setattr("offsider.cli.queues.asks", lambda: True)
    push(raw_redis, "A", queue="low")
    result = call("move", "low", "high", typed="n\n")
    assert "Move 1 job from low to high?" in result.output
    assert raw_redis.llen("queue:low") == 1
