"""``offsider log``, and the events of actions in the terminal."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from offsider.cli.command import myself
from offsider.cli.main import main
from offsider.inspector import EventLog
from tests.process.stored import push
from tests.redis.inspector.examined import OURS, register


@pytest.fixture(autouse=True)
def here(redis_url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)


def call(*words: str):
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_log_is_printed_oldest_first_and_filtered(config):
    log = EventLog(config)
    log.note("deploy", "v42", "Kim")
    log.note("process-died", "vm:1:a", how="was killed by SIGKILL", jobs=2)
    head, *lines = call("log").splitlines()
    assert head.split() == ["TIME", "(UTC)", "KIND", "EVENT"]
    assert [re.sub(r"^[0-9-]{10} [0-9:]{8} +", "", line) for line in lines] == [
        "deploy        Kim recorded the deploy v42.",
        "process-died  vm:1:a died: it was killed by SIGKILL and held 2 jobs.",
    ]
    (only,) = json.loads(call("log", "--json", "--who", "kim", "--since", "1h"))
    assert (only["kind"], only["subject"], only["who"], only["server"]) == ("deploy", "v42", "Kim", "main")
    assert only["text"] == "Kim recorded the deploy v42."
    assert json.loads(call("log", "--json", "--kind", "died", "--count", "1"))[0]["fields"]["jobs"] == "2"
    assert json.loads(call("log", "--json", "--until", "1h")) == []
    wrong = CliRunner().invoke(main, ["log", "--since", "soon"])
    assert (wrong.exit_code, "'soon' is not a time" in wrong.output) == (1, True)


def test_the_servers_of_a_configuration_have_one_timeline(config, tmp_path, tag, raw_redis):
    raw_redis.sadd("twin:queues", "low")
    (tmp_path / "offsider.toml").write_text(f'[servers.twin]\nurl = "{config.redis.url}"\nkey_prefix = "{tag}twin:"\n')
    call("mark", "v1")
    call("queues", "--server", "twin", "pause", "low")
    found = [(each["server"], each["kind"]) for each in json.loads(call("log", "--json"))]
    assert sorted(found) == [("main", "deploy"), ("twin", "control-set"), ("twin", "deploy")]
    assert [each["kind"] for each in json.loads(call("log", "--json", "--server", "main"))] == ["deploy"]


def test_each_action_of_the_terminal_is_in_the_log(raw_redis, config):
    register(raw_redis, OURS, queues=["low"])
    push(raw_redis, "Mail", "secret", queue="low")
    push(raw_redis, "Mail", "secret", queue="high")
    call("queues", "pause", "low")
    call("queues", "resume", "low")
    call("queues", "move", "high", "low", "-y")
    call("queues", "clear", "low", "-y")
    call("quiet", "--all")
    call("mark", "v42")
    call("controls", "limit", "Mail", "3")
    call("do", "controls", "hold", "subject=Mail")
    CliRunner().invoke(main, ["do", "controls", "limit", "subject=Mail", "limit=0"])
    found = EventLog(config).read()[::-1]
    assert {event.who for event in found} == {myself()}
    assert myself().startswith("cli ")
    assert [(event.kind, event.subject, event.fields.get("action", "")) for event in found] == [
        ("control-set", "queue=low", "hold"),
        ("control-removed", "queue=low", ""),
        ("action", "high", "queues.move"),
        ("action", "low", "queues.clear"),
        ("action", OURS, "processes.quiet"),
        ("deploy", "v42", ""),
        ("control-set", "Mail", "limit"),
        ("control-set", "Mail", "hold"),
        ("action", "", "controls.limit"),
    ]
    assert found[2].fields["count"] == "1"
    assert found[3].fields["outcome"] == "low: 2 jobs deleted"
    assert "limit" in found[-1].fields["error"]
    assert "secret" not in str(found)
