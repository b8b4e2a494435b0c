"""``offsider doctor``: its output, for people and for programs, and its exit code."""

from __future__ import annotations

import json
import re
import sys

import pytest

from tests.redis.cli.commands import command
from tests.redis.inspector.examined import push, register

pytestmark = pytest.mark.usefixtures("folder")
call = command("doctor")


def test_all_is_well(raw_redis):
    register(raw_redis, knows=["A"])
    push(raw_redis, "A")
    result = call()
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r"\d+ checks, nothing found\n", result.output)


def test_findings_set_the_exit_code():
    result = call()
    assert result.exit_code == 1
    assert result.output.startswith(
        "warn   no worker is registered\n"
        "       no job runs, and scheduled jobs do not move to their queues\n"
        "       → offsider worker -r YOUR_MODULE\n"
    )
    assert result.output.endswith(" checks, 1 finding\n")


def test_programs_read_json(raw_redis):
    register(raw_redis, knows=["A"])
    push(raw_redis, "A", queue="mail")
    result = call("--json")
    assert result.exit_code == 2
    reported = json.loads(result.output)
    assert reported["severity"] == "error"
    assert reported["findings"][0] == {
        "id": "unserved:mail",
        "name": "unserved",
        "kind": "stopped",
        "severity": "error",
        "subject": "mail",
        "what": "mail: no worker serves it; 1 job waiting",
        "cause": "these jobs never run",
        "details": [],
        "numbers": {"jobs": 1},
        "since": None,
        "harm": 2.0,
        "actions": ["offsider worker -r YOUR_MODULE -q mail"],
        "buttons": [{"text": "Jobs", "path": "/jobs?where=queue%3Amail"}],
        "servers": [],
        "muted_until": None,
        "muted_by": "",
    }


def test_a_server_that_is_away_is_the_finding(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://localhost:1")
    result = call()
    assert result.exit_code == 2
    assert result.output.startswith("error  redis://localhost:1 cannot be reached")


def test_a_wrong_configuration_is_reported(monkeypatch):
    monkeypatch.setenv("OFFSIDER_REDIS_WIRE_VERSION", "5")
    result = call()
    assert result.exit_code == 2
    assert "wire_version" in result.output


APP = """
from offsider import Config
from offsider.inspector.finding import warn

def configure(config: Config) -> None:
    config.doctor_checks.append(lambda server: [warn("shop", f"{server.name} is closed", cause="y", actions=("x",))])
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


def test_a_missing_application_of_the_file_is_a_finding(tmp_path):
    (tmp_path / "offsider.toml").write_text('[worker]\nrequire = "nowhere_to_be_found"\n')
    result = call()
    assert result.exit_code == 1
    assert "the application of worker.require cannot be loaded here" in result.output


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
    assert result.output.startswith("error  bulk: no worker is registered; 1 job waiting\n")
    findings = json.loads(call("--json").output)["findings"]
    assert ("workers", ["bulk"]) in [(each["id"], each["servers"]) for each in findings]


def test_an_unreachable_server_is_a_finding_beside_those_of_others(two_servers, tmp_path):
    (tmp_path / "offsider.toml").write_text('[servers.away]\nurl = "redis://localhost:1"\n')
    result = call()
    assert result.exit_code == 2
    assert result.output.startswith("error  away: redis://localhost:1 cannot be reached")
