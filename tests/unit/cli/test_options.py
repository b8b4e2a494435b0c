"""The command line becomes settings."""

from __future__ import annotations

import pytest

from offsider.cli.command import ConnectionOptions
from offsider.cli.options import WorkerOptions
from offsider.core.errors import ConfigurationError


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_omitted_options_override_nothing():
    assert WorkerOptions().overrides() == {}


def test_everything_typed():
    config = WorkerOptions(
        require=("app", "more.py"),
        queue=("high,3", "low"),
        concurrency="7",
        environment="production",
        tag="blue",
        timeout="8.5",
        verbose=True,
        reload=True,
        health="0.0.0.0:7433",
        processes="3",
    ).load_config()
    assert config.worker.require == ("app", "more.py")
    assert config.worker.queues == ("high,3", "low")
    assert (config.worker.concurrency, config.worker.environment, config.worker.tag) == (7, "production", "blue")
    assert (config.worker.timeout_seconds, config.log.level, config.worker.reload) == (8.5, "debug", True)
    assert config.worker.health == "0.0.0.0:7433"
    assert config.worker.processes == 3


HEAVY = """
[servers.bulk]
url = "redis://bulk"
[shards.heavy]
queues = ["a", "b"]
concurrency = 3
processes = 2
server = "bulk"
"""


def test_the_environment_chooses_a_shard_for_the_worker_and_for_no_other_command(tmp_path, monkeypatch):
    (tmp_path / "offsider.toml").write_text(HEAVY)
    monkeypatch.setenv("OFFSIDER_WORKER_SHARD", "heavy")
    assert WorkerOptions().load_config().server == "bulk"
    assert ConnectionOptions().load().server == "main"


def test_a_shard_is_chosen_and_other_options_win_over_it(tmp_path):
    (tmp_path / "offsider.toml").write_text(HEAVY)
    config = WorkerOptions(shard="heavy").load_config()
    assert (config.worker.queues, config.worker.concurrency, config.worker.processes) == (("a", "b"), 3, 2)
    assert (config.worker.shard, config.server, config.redis.url) == ("heavy", "bulk", "redis://bulk")
    config = WorkerOptions(shard="heavy", queue=("c",), concurrency="1").load_config()
    assert (config.worker.queues, config.worker.concurrency, config.worker.processes) == (("c",), 1, 2)


def test_selected_queues_replace_all_others(tmp_path):
    (tmp_path / "offsider.toml").write_text('[worker]\nqueues = ["a"]\n')
    config = WorkerOptions(select=("urgency=high",)).load_config()
    assert config.worker.queues == ()


@pytest.mark.parametrize(
    "options, message",
    [
        (WorkerOptions(shard="none"), r"^there is no shard 'none'"),
        (WorkerOptions(select=("urgenci=high",)), r"^--select: 'urgenci=high', character 1: unknown predicate"),
        (WorkerOptions(select=("*",), queue=("a",)), r"^--select chooses the queues: it cannot be combined with -q"),
        (WorkerOptions(negate=True), r"^--negate requires --select"),
        (WorkerOptions(concurrency="many"), r"^-c, --concurrency: worker\.concurrency expects"),
        (WorkerOptions(concurrency="0"), r"^-c, --concurrency: worker\.concurrency expects"),
        (WorkerOptions(timeout="-1"), r"^-t, --timeout: worker\.timeout_seconds expects"),
        (WorkerOptions(processes="some"), r"^-p, --processes: worker\.processes expects"),
        (WorkerOptions(queue=("a", "a")), r"^-q, --queue: worker\.queues .*listed twice"),
        (WorkerOptions(queue=("",)), r"^-q, --queue: worker\.queues"),
        (WorkerOptions(health="here"), r"^--health: worker\.health expects host:port"),
        (WorkerOptions(environment="a b"), r"^-e, --environment: worker\.environment expects"),
    ],
)
def test_a_wrong_value_names_the_option(options, message):
    with pytest.raises(ConfigurationError, match=message):
        options.load_config()
