"""The whole examination: it ends, it changes nothing, it takes seconds however much is stored."""

from __future__ import annotations

import re

import pytest

from offsider.inspector.finding import Severity
from offsider.inspector.findings.examination import examine
from offsider.storage.redis import redact
from offsider.worker.launcher import Launcher
from tests.docs.snippets import ROOT
from tests.redis.inspector.examined import examined, payload, push, register
from tests.snapshot import snapshot
from tests.waiting import wait_for


def test_nothing_is_changed(redis_url, raw_redis):
    register(raw_redis, knows=["A"])
    push(raw_redis, "A", "B")
    raw_redis.zadd("retry", {payload("A"): 1})
    before = snapshot(raw_redis)
    examined(redis_url)
    assert snapshot(raw_redis) == before


@pytest.mark.parametrize(
    "url, command",
    [
        ("redis://localhost:1", "-u redis://localhost:1 PING"),
        ("redis+cluster://localhost:1,localhost:2", "--cluster check localhost:1"),
    ],
)
def test_a_server_that_is_away_is_a_finding(url, command):
    [finding] = examined(url).values()
    assert (finding.name, finding.severity) == ("server", Severity.ERROR)
    assert finding.what.startswith(f"{url} cannot be reached: ")
    assert finding.what.count(url) == 1
    assert finding.actions[0] == f"check redis.url: redis-cli {command}"


def test_a_cluster_that_does_not_serve_the_slot_is_a_finding(make_server):
    address = make_server(port=0, cluster_enabled="yes").url.partition("://")[2].partition("/")[0]
    [finding] = examined(f"redis+cluster://{address}").values()
    assert finding.what.startswith(f"redis+cluster://{address}: no node of the Cluster serves slot 8428: ")
    assert finding.actions[0] == f"check redis.url: redis-cli --cluster check {address}"


def test_a_wrong_password_is_a_finding_without_the_password(embedded_url):
    [finding] = examined(embedded_url, username="nobody", password="hush").values()
    assert (finding.name, finding.severity) == ("server", Severity.ERROR)
    assert finding.what.startswith(f"{redact(embedded_url)} refused the command: ")
    assert finding.what.count("refuse") == 1
    assert "hush" not in repr(finding)


@pytest.mark.parametrize("prefix", ["", "shop:"])
def test_the_permissions_of_a_worker_suffice_to_examine_stored_jobs(redis_url, raw_redis, prefix, tag):
    page = (ROOT / "docs" / "deployment.md").read_text()
    name, rules = re.search(r"^user (\S+) (.+)$", page, re.MULTILINE).groups()
    rules = rules.replace("~*", f"~{tag}{prefix}*")
    raw_redis.execute_command("ACL", "SETUSER", name, *rules.split())
    raw_redis.sadd(f"{prefix}queues", "mail")
    raw_redis.lpush(f"{prefix}queue:mail", payload("A", "mail"))
    raw_redis.sadd("other:queues", "mail")
    try:
        found = examined(redis_url, username=name, password="secret", key_prefix=tag + prefix)
    finally:
        raw_redis.execute_command("ACL", "DELUSER", name)
    assert {check for check in found if "the check failed" in found[check].what} == set()
    assert found["unknown"].what.endswith("not checked: maxmemory-policy, AOF, RDB, memory")
    assert found["workers"].severity is Severity.ERROR


def test_a_real_worker_is_well(config, raw_redis):
    launcher = Launcher(config)
    launcher.start()
    try:
        wait_for(lambda: raw_redis.keys("*:*:*"))
        push(raw_redis, "shop.Known", queue="other")
        assert list(examined(config.redis.url)) == ["unserved"]
    finally:
        launcher.stop()


def test_the_default_configuration_is_that_of_this_process(default_config):
    assert [finding.name for finding in examine()] == ["workers"]
