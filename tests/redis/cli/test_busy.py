"""The tab Busy: processes with their running jobs."""

from __future__ import annotations

import json
import time

import pytest

from offsider.cli.top.tabs import Busy, View
from offsider.config.config import Config
from offsider.config.installation import Installation
from tests.redis.inspector.examined import OURS, RUBYS, payload, register


@pytest.fixture
def busy(redis_url):
    config = Config()
    config.redis.url = redis_url
    return Busy(Installation.of(config))


def run(raw_redis, identity: str, tid: str, name: str, since: float) -> None:
    work = {"queue": "default", "payload": payload(name), "run_at": int(time.time() - since)}
    raw_redis.hset(f"{identity}:work", tid, json.dumps(work))


def test_each_process_has_its_jobs_below_it_the_longest_first(busy, raw_redis):
    register(raw_redis, queues=["default", "mail"], quiet="true")
    register(raw_redis, RUBYS)
    run(raw_redis, OURS, "a", "Short", 5)
    run(raw_redis, OURS, "b", "Long", 500)
    sheet = busy.read(View())
    assert [row.cells[0].split()[0] for row in sheet.rows] == [OURS, "Long", "Short", RUBYS]
    assert [row.subject is None for row in sheet.rows] == [False, True, True, False]
    assert sheet.rows[0].cells[1] == "1 of 5 quiet"
    assert sheet.rows[0].cells[-1] == "default, mail"
    assert sheet.rows[1].cells[2].startswith("8 min 2")


def test_a_signal_is_left_for_the_process(busy, raw_redis):
    register(raw_redis)
    [row] = busy.read(View()).rows
    assert busy.actions["Q"].act(row.subject)
    assert busy.actions["T"].act(row.subject)
    assert raw_redis.lrange(f"{OURS}-signals", 0, -1) == [b"TERM", b"TSTP"]


def test_an_embedded_worker_accepts_no_signals(busy, raw_redis):
    register(raw_redis, embedded=True)
    [row] = busy.read(View()).rows
    assert not any(action.act(row.subject) for action in busy.actions.values())
    assert not raw_redis.exists(f"{OURS}-signals")


def test_stored_data_cannot_inject_terminal_sequences(busy, raw_redis):
    register(raw_redis, tag="\x1b[2J")
    run(raw_redis, OURS, "a", "\x1b[31m", 5)
    assert "\x1b" not in repr([row.cells for row in busy.read(View()).rows]).replace(r"\\x1b", "")
