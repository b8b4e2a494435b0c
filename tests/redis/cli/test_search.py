"""``offsider search``: stored jobs by any text, and tracked jobs by their id, also after their end."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from offsider import Config, job
from offsider.cli.main import main
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.ext.results import Results, subscriber
from offsider.jobs import registry
from offsider.testing import RunningWorker

APP = "from offsider.ext.results import Results\n\ndef configure(config):\n    config.use(Results())\n"


@pytest.fixture(autouse=True)
def _application(redis_url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setattr(subscriber, "IDLE_SECONDS", 0.02)  # tests wait for their threads
    (tmp_path / "kept_app.py").write_text(APP)


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    yield config
    Installation.of(config).close()


@pytest.fixture
def finished(config):
    """The id of a tracked job that has succeeded."""
    config.use(Results())
    with registry.isolated():

        @job(name="kept", track=True)
        def kept() -> None: ...

        with RunningWorker(config) as worker:
            jid = Client(config).push({"class": kept, "args": []})
            worker.wait()
    return jid


def call(*words: str):
    return CliRunner().invoke(main, ["search", *words])


def test_stored_jobs_are_found_by_any_text(config):
    client = Client(config)
    jid = client.push({"class": "Mail", "args": ["ann@example.com"], "queue": "mails"})
    client.push({"class": "Mail", "args": ["bob@example.com"], "at": 4_102_444_800})
    client.push({"class": "Other", "args": ["\x1b[31m"]})
    assert [line.split() for line in call("ann@").output.splitlines()] == [
        ["WHERE", "CLASS", "JID", "ARGUMENTS"],
        ["queue:mails", "Mail", jid, "'ann@example.com'"],
    ]
    assert {one["where"] for one in json.loads(call("example.com", "--json").output)["jobs"]} == {
        "queue:mails",
        "schedule",
    }
    assert len(json.loads(call("example.com", "--json", "--most", "1").output)["jobs"]) == 1
    assert "\x1b" not in call("Other").output


def test_without_a_match_the_exit_code_is_1():
    assert (call("nothing").exit_code, call("nothing").output) == (1, "No job found.\n")
    assert json.loads(call("nothing", "--json").output) == {"tracked": None, "jobs": []}


def test_a_tracked_job_is_found_after_its_end(finished):
    result = call(finished, "-r", "kept_app")
    assert (result.exit_code, len(result.output.splitlines())) == (0, 1)
    assert re.fullmatch(r"kept succeeded \d{4}-\d\d-\d\d \d\d:\d\d:\d\d in [\d,]+ ms on host \S+\n", result.output)
    data = json.loads(call(finished, "-r", "kept_app", "--json").output)
    assert (data["tracked"]["jid"], data["tracked"]["state"], data["jobs"]) == (finished, "succeeded", [])
    assert call("0123456789abcdef01234567", "-r", "kept_app").exit_code == 1


def test_without_the_extension_only_stored_jobs_are_found(finished):
    assert call(finished).exit_code == 1


def test_an_unreachable_server_is_an_error(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    result = call("anything")
    assert result.exit_code == 1
    assert "offsider: redis://127.0.0.1:1/0" in result.stderr
