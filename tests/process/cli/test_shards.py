"""``offsider shards``: the queues of each shard, and errors in their configuration."""

from __future__ import annotations

import json

import pytest

from tests.process.cli.commands import SHOP, offsider

SHARDS = """\
[worker]
require = "shop"
concurrency = 4

[servers.bulk]
url = "redis://:secret@127.0.0.1:2/0"

[routing]
rules = [["urgency=high", "urgent"], ["resource_boundary=cpu", "heavy", "bulk"], ["*", "default"]]

[shards.urgent]
select = "urgency=high"
concurrency = 10
processes = 2

[shards.bulk]
queues = ["heavy"]
server = "bulk"

[shards.catchall]
queues = ["default,2", "mailers"]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "offsider.toml").write_text(SHARDS)
    return tmp_path


def test_each_shard_is_shown_with_its_queues_and_their_jobs(folder):
    ended = offsider(folder, "shards")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [
        "urgent: 2 processes of 10 threads, server main (redis://127.0.0.1:1)",
        "  selects urgency=high",
        "  urgent: shop.welcome",
        "bulk: 1 process of 4 threads, server bulk (redis://:***@127.0.0.1:2/0)",
        "  heavy: shop.resize",
        "catchall: 1 process of 4 threads, server main (redis://127.0.0.1:1)",
        "  default: shop.ReportJob",
        "  mailers: no declared job",
    ]


def test_programs_get_the_same_as_json(folder):
    urgent, bulk, _ = json.loads(offsider(folder, "shards", "--json").stdout)
    assert bulk == {
        "name": "bulk",
        "server": "bulk",
        "url": "redis://:***@127.0.0.1:2/0",
        "select": "",
        "concurrency": 4,
        "processes": 1,
        "queues": [{"name": "heavy", "jobs": ["shop.resize"]}],
    }
    assert (urgent["select"], urgent["queues"]) == ("urgency=high", [{"name": "urgent", "jobs": ["shop.welcome"]}])


def test_good_shards_pass_the_check_of_rules_and_notes_are_not_errors(folder):
    ended = offsider(folder, "routes", "check")
    assert (ended.returncode, ended.stderr) == (0, "")
    note, summary = ended.stdout.splitlines()
    assert note == "note: no declared job goes to mailers, which the shard catchall serves"
    assert summary.startswith("3 rules for 3 jobs: no problems (")


def test_queues_without_a_shard_are_errors_of_the_check_of_rules(folder):
    (folder / "offsider.toml").write_text(SHARDS.replace('server = "bulk"', "").replace('"default,2", ', ""))
    ended = offsider(folder, "routes", "check")
    assert ended.returncode == 1
    assert ended.stdout.splitlines() == [
        "no worker serves default, where shop.ReportJob would wait",
        "no worker serves heavy of the server bulk, where shop.resize would wait",
        "the shard bulk serves the server main, but the jobs of its queue heavy go to the server bulk: shop.resize",
        "note: no declared job goes to mailers, which the shard catchall serves",
    ]


def test_queues_of_other_capsules_need_no_shard(folder):
    text = SHARDS.replace('"default,2", ', "") + '[capsules.more]\nqueues = ["default"]\n'
    (folder / "offsider.toml").write_text(text)
    assert offsider(folder, "routes", "check").returncode == 0


def test_without_shards_it_explains_how_to_add_one(folder):
    (folder / "offsider.toml").write_text("")
    ended = offsider(folder, "shards", "-r", "shop")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "offsider: the configuration has no shards: each is a table [shards.NAME] with queues or select\n"
    )
