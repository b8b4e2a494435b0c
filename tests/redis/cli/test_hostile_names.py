"""Names in Redis come from any client: they are text in the output of every command, and in proposed command lines."""

from __future__ import annotations

import json
import re
import shlex
import time

import pytest
from click.testing import CliRunner

from offsider.cli.main import main
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.ext.periodic.entry import make
from offsider.ext.periodic.store import PeriodicStore
from offsider.inspector import Controls
from offsider.storage import slots
from offsider.storage.slots import Rate

EVIL = "\x1b]0;pwned\x07\x1b[31m$(reboot)\x9b31m\u202e\nINFO forged\r"
IDENTITY = f"h{EVIL}:1:abcdefabcdef"


def job(**more) -> str:
    own = {"class": f"C{EVIL}", "args": [EVIL], "jid": "1" * 24, "queue": f"q{EVIL}", "retry": True, "tags": [EVIL]}
    return json.dumps({**own, "created_at": 1790000000000, "enqueued_at": 1700000000000, **more})


@pytest.fixture
def evil(redis_url, raw_redis, monkeypatch, tmp_path):
    """Store the name in all places that the commands read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)
    config = Config()
    config.redis.url = redis_url
    here = Installation.of(config)
    keys, now = here.redis.keys, time.time()
    failed = {"error_class": f"E{EVIL}", "error_message": EVIL, "retry_count": 1, "failed_at": 1790000000000}
    raw_redis.sadd(keys.queues, f"q{EVIL}", f"odd{EVIL}", "-x")
    raw_redis.lpush(keys.queue(f"q{EVIL}"), job(jid=f"J{EVIL}"))
    raw_redis.lpush(keys.queue("-x"), job())
    raw_redis.lpush(keys.queue(f"$(reboot) ghost{EVIL}"), job())
    raw_redis.set(keys.queue(f"odd{EVIL}"), "1")
    raw_redis.sadd(keys.paused, f"q{EVIL}", "-x")
    raw_redis.zadd(keys.retry, {job(**failed): now + 999})
    raw_redis.zadd(keys.dead, {job(**failed): now})
    raw_redis.zadd(keys.schedule, {job(): now + 999})
    info = {"hostname": f"h{EVIL}", "started_at": now, "pid": 1, "tag": f"t{EVIL}", "concurrency": 5, "version": EVIL}
    info |= {"queues": [f"q{EVIL}"], "labels": [EVIL], "identity": IDENTITY, "app_version": EVIL, "shard": EVIL}
    raw_redis.sadd(keys.processes, IDENTITY)
    beat = {"info": json.dumps(info), "concurrency": 5, "busy": 1, "beat": now - 99, "quiet": "false"}
    raw_redis.hset(keys.process(IDENTITY), mapping=beat)
    work = {"queue": f"q{EVIL}", "payload": job(), "run_at": int(now) - 86_400}
    raw_redis.hset(keys.work(IDENTITY), f"tid{EVIL}", json.dumps(work))
    Controls(here).drop(f"C{EVIL}", by=EVIL, reason=EVIL)
    slots.declare(here.redis, {f"C{EVIL}": (3, Rate())}, now)
    raw_redis.sadd(keys.places, keys.held(f"C{EVIL}"))
    raw_redis.sadd(keys.groups, f"C{EVIL}")
    raw_redis.lpush(keys.held(f"C{EVIL}"), job())
    entry = make("hourly", "@hourly", f"C{EVIL}", {"queue": f"q{EVIL}", "description": EVIL})
    PeriodicStore(here.redis).publish([entry], now, 1e9)
    yield
    here.close()


COMMANDS = [
    "stats", "queues", "queues pause EVIL", "queues resume EVIL", "queues clear QUEUE --yes", "queues clear missing",
    "doctor", "controls", "controls drop EVIL", "controls resume EVIL", "controls resume Cx",
    "controls limit EVIL 3", "controls pause EVIL", "controls show EVIL", "do controls EVIL/EVIL", "show EVIL",
    "limiters reset EVIL/EVIL", "locks release EVIL", "batches show EVIL", "periodic", "periodic show PERIODIC",
    "periodic show missing",
    "queues move QUEUE EVIL --yes", "mark EVIL",
    "dump --all", "dump h", "quiet --host nosuch", "quiet nosuch", "quiet EVIL", "stop --all",
    "now", "log", "jobs", "jobs --where dead", "jobs --where retry", "why JID", "show job JID", "show fleet",
    "show findings", "show queues", "show processes", "show log", "show controls EVIL",
]  # fmt: skip


def call(line: str) -> str:
    names = {"EVIL": EVIL, "QUEUE": f"q{EVIL}", "PERIODIC": "hourly", "JID": "1" * 24}
    words = [word.replace("EVIL", EVIL) if word not in names else names[word] for word in line.split()]
    result = CliRunner().invoke(main, words, color=True)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output


@pytest.mark.not_on_cluster("the names are the same")
def test_no_command_prints_a_stored_name_raw(evil):
    shown = {line: call(line) for line in COMMANDS}
    for line, output in shown.items():
        own = re.sub("\x1b\\[[0-9;]*m", "", output)  # colors of ours
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]|^INFO forged|\x1b\\[31m[$]", own, re.MULTILINE), line
    silent = [line for line, output in shown.items() if "reboot" not in output]
    assert len(silent) <= 6, {line: shown[line][:150] for line in silent}


def test_no_color_is_respected(evil):
    colors = ["\x1b" in CliRunner(env={"NO_COLOR": no}).invoke(main, ["now"], color=True).output for no in ("", "1")]
    assert colors == [True, False]


@pytest.mark.not_on_cluster("the names are the same")
def test_proposed_commands_are_quoted(evil):
    fixes = re.findall("→\x1b\\[0m (.*)", call("doctor"))
    named = [fix for fix in fixes if "reboot" in fix]
    assert len(named) >= 3, fixes
    for fix in named:
        assert any("$(reboot)" in word for word in shlex.split(fix)), fix
        assert not re.search(r"\$\(", re.sub(r"'[^']*'", "", fix)), fix
    assert any("offsider queues resume -- -x" in fix for fix in fixes), fixes
