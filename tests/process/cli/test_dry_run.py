"""``offsider worker --dry-run`` and ``--list-queues``: exactly the real worker, without requests to Redis."""

from __future__ import annotations

import pytest

from tests.process.cli.commands import SHOP, offsider
from tests.process.cli.test_shards import SHARDS


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "offsider.toml").write_text(SHARDS)
    return tmp_path


def shown(folder, *options, **environ):
    """The output of the command; no server listens at its address."""
    ended = offsider(folder, "worker", *options, **environ)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_a_shard_is_shown_with_its_server_processes_and_queues(folder):
    assert shown(folder, "--dry-run", "--shard", "urgent") == [
        "shard: urgent",
        "server: main, redis://127.0.0.1:1",
        f"environment: development, settings of {folder}/offsider.toml",
        "processes: 2, forked by a supervisor",
        "capsule default: 10 threads, in random order",
        "  urgent,1",
    ]
    assert shown(folder, "--dry-run", "--shard", "bulk", "-c", "1", "-p", "0")[1:] == [
        "server: bulk, redis://:***@127.0.0.1:2/0",
        f"environment: development, settings of {folder}/offsider.toml",
        "processes: 1, without a supervisor",
        "capsule default: 1 thread, strict order",
        "  heavy",
    ]


def test_it_includes_the_configuration_by_the_application(folder):
    with (folder / "shop.py").open("a") as file:
        file.write("def configure(config):\n    config.capsule('exports', concurrency=1, queues=['csv', 'pdf,3'])\n")
    assert shown(folder, "--dry-run", "-q", "a")[-5:] == [
        "capsule default: 4 threads, strict order",
        "  a",
        "capsule exports: 1 thread, by weight",
        "  csv",
        "  pdf,3",
    ]
    assert shown(folder, "--list-queues") == ["default", "csv", "pdf"]


def test_the_processes_of_groups_are_shown_one_by_one(folder):
    assert shown(folder, "--dry-run", "-G", "a,2 b", "-G", "c", "-p", "3")[2:] == [
        "processes: 3, forked by a supervisor",
        "process 1:",
        "  capsule default: 4 threads, by weight",
        "    a,2",
        "    b",
        "process 2:",
        "  capsule default: 4 threads, strict order",
        "    c",
        "process 3:",
        "  capsule default: 4 threads, by weight",
        "    a,2",
        "    b",
    ]
    assert shown(folder, "--list-queues", "-G", "a,2 b", "-G", "c b") == ["a", "b", "c"]


def test_queues_are_listed_one_a_line(folder):
    assert shown(folder, "--list-queues", "--shard", "catchall") == ["default", "mailers"]
    assert shown(folder, "--list-queues", "-q", "*") == ["*"]


def test_warnings_are_written_to_stderr(folder):
    ended = offsider(folder, "worker", "--list-queues", "--select", "name=report", OFFSIDER_ROUTING_RULES="[]")
    assert (ended.stdout, ended.stderr) == ("low\n", "")
    rules = '[["*", "default"]]'
    ended = offsider(folder, "worker", "--list-queues", "--select", "name=report", OFFSIDER_ROUTING_RULES=rules)
    assert (ended.returncode, ended.stdout) == (0, "default\n")
    assert "serves the queue default with all its jobs, including shop.resize, shop.welcome" in ended.stderr


def test_errors_that_end_a_start_end_the_dry_run(folder):
    ended = offsider(folder, "worker", "--dry-run", "-r", "nowhere")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("offsider: cannot load nowhere")
