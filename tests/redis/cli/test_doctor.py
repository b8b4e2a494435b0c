"""``offsider doctor``: its output, for people and for programs, and its exit code."""

from __future__ import annotations

import json
import re
import sys

import pytest
from click.testing import CliRunner

from offsider.cli.main import main
from tests.docs.snippets import ROOT
from tests.redis.inspector.examined import push, register


@pytest.fixture(autouse=True)
def here(redis_url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)


def call(*words: str):
    return CliRunner().invoke(main, ["doctor", *words])


def test_all_is_well(raw_redis):
    register(raw_redis, knows=["A"])
    push(raw_redis, "A")
    result = call()
    assert result.exit_code == 0, result.output
    assert "ok     maxmemory-policy is noeviction\n" in result.output
    assert result.output.endswith("\nAll is well.\n")


def test_findings_set_the_exit_code():
    result = call()
    assert result.exit_code == 1
    assert result.output.startswith(
        "warn   no worker is registered\n"
        "       no job runs, and scheduled jobs do not move to their queues\n"
        "       → offsider worker -r YOUR_MODULE\n"
    )
    assert result.output.endswith(" findings, 1 to attend to\n")


def test_something_is_wrong(raw_redis):
    push(raw_redis, "A", queue="mail")
    result = call()
    assert result.exit_code == 2
    assert result.output.startswith("error  no worker serves mail (1 job waiting)\n")


def test_programs_read_json(raw_redis):
    push(raw_redis, "A", queue="mail")
    result = call("--json")
    assert result.exit_code == 2
    reported = json.loads(result.output)
    assert reported["severity"] == "error"
    assert reported["findings"][0] == {
        "id": "unserved",
        "severity": "error",
        "what": "no worker serves mail (1 job waiting)",
        "since": None,
        "subject": "mail",
        "numbers": {"queues": 1, "jobs": 1},
        "cause": "these jobs never run",
        "actions": ["offsider worker -r YOUR_MODULE -q mail (quiet workers claim no jobs)"],
        "servers": [],
    }


def test_a_server_that_is_away_is_the_finding(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://localhost:1")
    result = call()
    assert result.exit_code == 2
    assert result.output.startswith("error  redis://localhost:1 cannot be reached")


def test_the_line_of_a_cluster_is_the_one_in_the_docs(cluster, monkeypatch):
    monkeypatch.setenv("REDIS_URL", cluster.url)
    [sample] = re.findall("^ok .*", (ROOT / "docs" / "cluster.md").read_text(), re.MULTILINE)
    assert sample.replace("10.0.0.7:6379", cluster.primary().address) in call().output.splitlines()


def test_an_unknown_option_in_the_url_is_the_finding(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://localhost:1?foo=1")
    result = call()
    assert result.exit_code == 2
    assert "'redis://localhost:1' is not usable: its option 'foo' is unknown" in result.output


def test_stored_data_cannot_inject_terminal_sequences(raw_redis):
    register(raw_redis, knows=["A"])
    push(raw_redis, "\x1b[2J")
    assert r"declares \x1b[2J" in call().output


def test_a_wrong_configuration_is_reported(monkeypatch):
    monkeypatch.setenv("OFFSIDER_REDIS_WIRE_VERSION", "5")
    result = call()
    assert result.exit_code == 2
    assert "wire_version" in result.output


def test_the_server_is_that_of_the_configuration_file(redis_url, monkeypatch, tmp_path, raw_redis):
    monkeypatch.delenv("REDIS_URL")
    (tmp_path / "own.toml").write_text(
        f'[redis]\nurl = "redis://localhost:1"\n[environments.production.redis]\nurl = "{redis_url}"\n'
    )
    assert call("-C", "own.toml").exit_code == 2
    register(raw_redis, knows=["A"])
    assert call("-C", "own.toml", "-e", "production").exit_code == 0


APP = """
from offsider import Config
from offsider.inspector.finding import warn

def configure(config: Config) -> None:
    config.add_doctor_check(lambda server: [warn("shop", f"{server.name} is closed", cause="y", action="x")])
"""


@pytest.fixture
def application(tmp_path, monkeypatch):
    """A configuration with a check."""
    (tmp_path / "doctors_app.py").write_text(APP)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "doctors_app"
    sys.modules.pop("doctors_app", None)


FOUND = "main is closed"


def test_extensions_of_an_application_are_examined_too(application):
    assert FOUND not in call().output
    assert FOUND in call("-r", application).output


def test_the_application_is_that_of_the_file_by_default(application, tmp_path):
    (tmp_path / "offsider.toml").write_text(f'[worker]\nrequire = "{application}"\n')
    assert FOUND in call().output


def test_a_missing_application_of_the_file_is_a_finding(tmp_path):
    (tmp_path / "offsider.toml").write_text('[worker]\nrequire = "nowhere_to_be_found"\n')
    result = call()
    assert result.exit_code == 1
    assert "the application of worker.require cannot be loaded here" in result.output


def test_an_application_that_was_asked_for_has_to_be_there():
    result = call("-r", "nowhere_to_be_found")
    assert result.exit_code == 2
    assert "nowhere_to_be_found" in result.output


def test_extensions_are_examined_on_the_server_that_was_named(application, tmp_path, redis_url, tag):
    (tmp_path / "offsider.toml").write_text(f'[servers.bulk]\nurl = "{redis_url}"\nkey_prefix = "{tag}bulk:"\n')
    assert "bulk is closed" in call("-r", application, "--server", "bulk").output


@pytest.fixture
def two_servers(tmp_path, redis_url, raw_redis, tag):
    """The first server is fine; on the second a job waits in an unserved queue."""
    (tmp_path / "offsider.toml").write_text(f'[servers.bulk]\nurl = "{redis_url}"\nkey_prefix = "{tag}bulk:"\n')
    register(raw_redis, knows=["A"])
    raw_redis.sadd("bulk:queues", "mail")
    raw_redis.lpush("bulk:queue:mail", b'{"class":"A","args":[],"jid":"a","queue":"mail"}')


def test_every_server_is_examined_and_named_where_something_was_found(two_servers):
    result = call()
    assert result.exit_code == 2
    assert result.output.startswith("error  bulk: no worker serves mail (1 job waiting)\n")
    assert result.output.count("maxmemory-policy is noeviction") == 1
    findings = json.loads(call("--json").output)["findings"]
    assert [(each["id"], each["servers"]) for each in findings if each["severity"] == "error"] == [
        ("unserved", ["bulk"])
    ]


def test_one_server_is_examined_alone(two_servers):
    assert "mail" not in call("--server", "main").output
    assert call("--server", "bulk").output.startswith("error  no worker serves mail")


def test_an_unreachable_server_is_a_finding_beside_those_of_others(two_servers, tmp_path):
    (tmp_path / "offsider.toml").write_text('[servers.away]\nurl = "redis://localhost:1"\n')
    result = call()
    assert result.exit_code == 2
    assert result.output.startswith("error  away: redis://localhost:1 cannot be reached")
    assert "ok     main: maxmemory-policy is noeviction" in result.output
