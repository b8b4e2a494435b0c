"""The tab Home."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from offsider.cli.top.tabs import Busy, Home, Metrics, Queues, View, set_tabs
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.storage.activity import Activity, report
from offsider.testing import FakeClock
from tests.redis.inspector.examined import OURS, RUBYS, payload, push, register


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    config.clock = FakeClock()
    return config


def test_it_shows_the_counters_and_the_server(config, raw_redis):
    raw_redis.mset({"stat:processed": 12_345, "stat:failed": 6})
    facts = {row.cells[0]: row.cells[1] for row in Home(Installation.of(config)).read(View()).rows}
    assert (facts["Processed"], facts["Failed"]) == ("12,345  0.0 / s", "6")
    assert facts["Server"].split()[0] in {"redis", "valkey"}
    assert facts["Busy"] == "0 jobs of 0 workers"


def test_the_rate_is_the_one_that_the_processes_report(config, raw_redis):
    home = Home(Installation.of(config))
    assert home.read(View()).samples == (0.0,)
    raw_redis.sadd("processes", "web-1:7:0123456789ab")
    raw_redis.hset("web-1:7:0123456789ab", mapping={"info": "{}", "busy": 1})
    identity = "web-1:7:0123456789ab"
    pool = Installation.of(config).make_redis(1)
    report(pool, identity, Activity(429.84, 2.0), busy=1, work_key=f"{identity}:work", ended=())
    sheet = home.read(View())
    assert sheet.samples == (0.0, 429.84)
    assert sheet.rows[0].cells[1] == "0  429.8 / s"


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
    assert busy.actions["Q"].act(row.subject) == "asked to be quiet"
    assert busy.actions["T"].act(row.subject) == "asked to stop"
    assert raw_redis.lrange(f"{OURS}-signals", 0, -1) == [b"TERM", b"TSTP"]


def test_an_embedded_worker_accepts_no_signals(busy, raw_redis):
    register(raw_redis, embedded=True)
    [row] = busy.read(View()).rows
    assert {action.act(row.subject) for action in busy.actions.values()} == {"skipped (embedded)"}
    assert not raw_redis.exists(f"{OURS}-signals")


def test_stored_data_cannot_inject_terminal_sequences(busy, raw_redis):
    register(raw_redis, tag="\x1b[2J")
    run(raw_redis, OURS, "a", "\x1b[31m", 5)
    assert "\x1b" not in repr([row.cells for row in busy.read(View()).rows]).replace(r"\\x1b", "")


@pytest.fixture
def queues(redis_url):
    config = Config()
    config.redis.url = redis_url
    return Queues(Installation.of(config))


def test_queues_are_sorted_by_name_with_their_state(queues, raw_redis):
    register(raw_redis, queues=["a", "b"])
    for queue in ("c", "b", "a"):
        push(raw_redis, "A", queue=queue)
    raw_redis.sadd("paused", "b")
    states = [(row.cells[0], row.cells[1], row.cells[3]) for row in queues.read(View()).rows]
    assert states == [("a", "1", ""), ("b", "1", "paused"), ("c", "1", "no worker")]


def test_one_key_pauses_and_resumes(queues, raw_redis):
    push(raw_redis, "A", queue="mail")
    [row] = queues.read(View()).rows
    assert queues.actions["p"].act(row.subject) == "paused"
    assert raw_redis.smembers("paused") == {b"mail"}
    assert queues.actions["p"].act(row.subject) == "resumed"
    assert not raw_redis.exists("paused")


def test_a_deletion_asks_with_the_queue_and_its_jobs(queues, raw_redis):
    push(raw_redis, "A")
    push(raw_redis, "A", queue="mail")
    push(raw_redis, "A", queue="mail")
    delete = queues.actions["D"]
    one, two = queues.read(View()).rows
    assert delete.question([one]) == "Permanently delete queue default with 1 job?"
    assert delete.question([one, two]) == "Permanently delete 2 queues with 3 jobs?"
    assert {delete.act(row.subject) for row in (one, two)} == {"deleted"}
    assert not raw_redis.keys("queue*")


def test_jobs_are_sorted_by_their_execution_time(redis_url, raw_redis):
    now = datetime.now(UTC)
    written = {"Quick|p": 900, "Quick|ms": 900, "Slow|p": 4, "Slow|f": 1, "Slow|ms": 6000}
    raw_redis.hset(f"j|{now:%y%m%d}|{now.hour}:{now.minute:02}", mapping=written)
    config = Config()
    config.redis.url = redis_url
    assert [row.cells for row in Metrics(Installation.of(config)).read(View()).rows] == [
        ("Slow", "4", "1", "6.00 s", "2,000 ms"),
        ("Quick", "900", "0", "0.90 s", "1 ms"),
    ]


@pytest.fixture
def tabs(redis_url):
    config = Config()
    config.redis.url = redis_url
    return {tab.title: tab for tab in set_tabs(Installation.of(config))}


def job(number: int, **more) -> str:
    payload = {"class": f"Job{number}", "args": [number], "queue": "default", "jid": f"{number:024}"}
    return json.dumps(payload | more)


def test_each_set_has_its_keys(tabs):
    assert {title: "".join(tab.actions) for title, tab in tabs.items()} == {
        "Scheduled": "DEK",
        "Retries": "DRK",
        "Dead": "DR",
    }


def test_only_reversible_actions_skip_the_confirmation(tabs):
    asks = {action.verb: action.question is not None for tab in tabs.values() for action in tab.actions.values()}
    assert asks == {"Delete": True, "Enqueue": False, "Kill": True, "Retry": False}


def test_a_failed_job_shows_its_tries_and_its_error(tabs, raw_redis):
    raw_redis.zadd("retry", {job(1, retry_count=2, error_class="Boom", error_message="no"): time.time() + 100})
    sheet = tabs["Retries"].read(View())
    assert sheet.columns == ("WHEN", "QUEUE", "JOB", "ERROR", "ARGUMENTS")
    [row] = sheet.rows
    assert row.cells[1:] == ("default", "Job1 (3)", "Boom: no", "1")
    assert row.cells[0].startswith("in 1 min 3")


def test_a_scheduled_job_has_no_error(tabs, raw_redis):
    raw_redis.zadd("schedule", {job(1): 9e9})
    assert tabs["Scheduled"].read(View()).columns == ("WHEN", "QUEUE", "JOB", "ARGUMENTS")


def test_invalid_bytes_have_rows_of_their_own(tabs, raw_redis):
    raw_redis.zadd("dead", {b"\xff\x1b": 1, b"other": 1})
    sheet = tabs["Dead"].read(View())
    assert len({row.key for row in sheet.rows}) == 2
    assert {row.cells[2] for row in sheet.rows} == {"malformed"}
    assert {tabs["Dead"].actions["R"].act(row.subject) for row in sheet.rows} == {"skipped"}


def test_a_filter_shows_its_progress(tabs, raw_redis):
    raw_redis.zadd("retry", {job(number): number for number in range(300)})
    found = tabs["Retries"].read(View(size=5, text="Job29"))
    assert found.total == 11
    assert [row.cells[2] for row in found.rows] == ["Job29", "Job290", "Job291", "Job292", "Job293"]
    assert found.note == ""
