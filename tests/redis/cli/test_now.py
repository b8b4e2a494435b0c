"""``offsider now``: each finding with its begin, its cause and the next step; its exit code; and muted findings."""

from __future__ import annotations

import json
import time

import pytest

from offsider.cli.now import since_text
from offsider.config.config import Config
from offsider.inspector.findings import refresh
from tests.redis.cli.commands import command
from tests.redis.inspector.examined import enqueue, register

pytestmark = pytest.mark.usefixtures("folder")
call, do = command("now"), command("do")


@pytest.fixture(autouse=True)
def _durable(monkeypatch):
    """The server under test stores nothing on disk, which is a finding."""
    monkeypatch.setattr("offsider.inspector.findings.examination.SERVER_CHECKS", ())


def test_all_is_well(raw_redis):
    register(raw_redis, knows=["A"])
    result = call()
    assert (result.exit_code, result.output) == (0, "Nothing is broken, late or stopped.\n")
    assert json.loads(call("--json").output) == {"severity": "ok", "findings": []}


def test_findings_are_shown_with_their_begin_and_the_next_step(raw_redis):
    register(raw_redis, knows=["A"], queues=["default"])
    enqueue(raw_redis, 130)
    enqueue(raw_redis, 660, queue="mail")
    result = call()
    assert result.exit_code == 2
    lines = result.output.splitlines()
    assert lines[0] == "LATE 1  STOPPED 1"
    late = next(line for line in lines if line.startswith("LATE      default: 3 jobs waiting"))
    assert "   since " in late
    assert late.endswith("UTC, 1 minute")
    at = next(number for number, line in enumerate(lines) if line.startswith("STOPPED   mail: no worker serves it"))
    assert lines[at + 1 : at + 3] == [
        "          these jobs never run",
        "          → offsider worker -r YOUR_MODULE -q mail",
    ]
    assert json.loads(call("--json").output)["severity"] == "error"


def test_a_muted_finding_is_shown_last_and_does_not_count(raw_redis, redis_url):
    register(raw_redis, knows=["A"], queues=["default"])
    enqueue(raw_redis, 130)
    enqueue(raw_redis, 660, queue="mail")
    config = Config()
    config.redis.url = redis_url
    refresh(config)
    assert do("findings", "unserved:mail/mute", "hours=2").output.startswith("Muted: mail: no worker serves it")
    result = call()
    assert result.exit_code == 1
    assert "muted until " in result.output.splitlines()[-2]
    assert do("findings", "unserved:mail/unmute").exit_code == 0
    assert call().exit_code == 2


def test_the_findings_of_all_servers_or_of_one(raw_redis, redis_url, tag, tmp_path):
    (tmp_path / "offsider.toml").write_text(f'[servers.bulk]\nurl = "{redis_url}"\nkey_prefix = "{tag}bulk:"\n')
    register(raw_redis, knows=["A"])
    result = call()
    assert (result.exit_code, result.output.splitlines()[2]) == (1, "STOPPED   bulk: no worker is registered")
    assert call("--server", "main").exit_code == 0
    (tmp_path / "offsider.toml").write_text('[servers.away]\nurl = "redis://localhost:1"\n')
    result = call()
    assert result.exit_code == 2
    assert "cannot look at away: redis://localhost:1 cannot be reached" in result.output


def test_an_older_begin_has_its_date():
    assert since_text(None) == ""
    assert since_text(time.time() - 61).endswith(" UTC, 1 minute")
    assert since_text(time.time() - 2 * 86_400 - 60).count("-") == 2
