"""Faults of a server are found on a real server that has them: those that are hard to describe as facts."""

from __future__ import annotations

import subprocess

import pytest
import redis

from offsider.inspector.finding import Severity
from tests.redis.inspector.examined import examined


@pytest.mark.needs("redis-server")
def test_the_fix_of_a_setting_changes_every_node_of_a_cluster(cluster):
    for node in cluster.nodes:
        node.raw.config_set("appendfsync", "no")
    try:
        command, _, _ = examined(cluster.url)["persistence"].actions[0].partition(" (")
        subprocess.run(command.split(), check=True)
        assert {node.raw.config_get("appendfsync")["appendfsync"] for node in cluster.nodes} == {"everysec"}
    finally:
        for node in cluster.nodes:
            node.raw.config_set("appendfsync", "everysec")
    assert "persistence" not in examined(cluster.url)


def test_a_cluster(make_server):
    found = examined(make_server(cluster_enabled="yes").url)
    assert (found["role"].severity, found["role"].what) == (
        Severity.ERROR,
        "the server is a Cluster, and its URL is that of a single server",
    )


def test_a_single_server_with_the_url_of_a_cluster(make_server):
    server = make_server(port=0, persist=False)
    found = examined(server.url.replace("redis://", "redis+cluster://"))
    assert found["cluster"].severity is Severity.WARN
    assert "programs with redis:// do not see these jobs" in found["cluster"].sentence
    assert "--cluster" not in " ".join(action for finding in found.values() for action in finding.actions)


def test_a_user_without_scripts(make_server):
    server = make_server(port=0)
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", "noscript", "on", ">pw", "~*", "+@all", "-@scripting")
    finding = examined(server.url, username="noscript", password="pw")["scripts"]
    assert finding.fatal
    assert "does not run Lua scripts for this user" in finding.what
