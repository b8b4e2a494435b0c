"""``offsider routes check`` finds errors in the configuration of shards."""

from __future__ import annotations

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
