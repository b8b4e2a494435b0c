"""The jobs that run now, whoever runs them."""

from __future__ import annotations

import json
import threading

import pytest

from offsider import job
from offsider.inspector import WorkSet
from offsider.jobs import registry
from offsider.wiring.default import set_default_config
from offsider.worker.launcher import Launcher
from tests.redis.inspector.payloads import JID, failed_job

OURS = "web-1:17:0123456789ab"


@pytest.fixture
def running(raw_redis):
    def running(told: object, tid: str = "t1", identity: str = OURS, key: str = "work") -> None:
        raw_redis.sadd("processes", identity)
        raw_redis.hset(f"{identity}:{key}", tid, told if isinstance(told, str | bytes) else json.dumps(told))

    return running


def run(number: int, run_at: object) -> dict:
    payload = json.dumps({"class": "HardJob", "args": [number], "jid": f"jid {number}", "queue": "low"})
    return {"queue": "low", "payload": payload, "run_at": run_at}


def test_a_running_job_says_where_since_when_and_what(config, running):
    running(run(1, int(config.clock.now()) - 60))
    [work] = WorkSet(config)
    assert (work.process, work.tid, work.queue, work.jid) == (OURS, "t1", "low", "jid 1")
    assert work.run_at == pytest.approx(config.clock.now() - 60, abs=5)
    assert work.elapsed_seconds == pytest.approx(60, abs=5)
    assert (work.record.name, work.record.args) == ("HardJob", [1])


def test_they_come_by_process_and_the_longest_running_first(config, running):
    running(run(1, 300), "t1", "b:1:x")
    running(run(2, 200), "t2", "b:1:x")
    running(run(3, 400), "t1", "a:1:x")
    assert [work.record.args for work in WorkSet(config)] == [[3], [2], [1]]
    assert len(WorkSet(config)) == 3


@pytest.mark.parametrize("version, key", [(6, "workers"), (7, "work"), (8, "work")])
def test_the_jobs_of_ruby_processes_of_every_version_are_found(config, running, version, key):
    running({"queue": "low", "payload": failed_job(version).decode(), "run_at": 1795216790}, key=key)
    work = WorkSet(config).find_work(JID)
    assert work is not None
    assert (work.run_at, work.record.name) == (1795216790, "HardJob")
    assert WorkSet(config).find_work("f" * 24) is None


def test_a_payload_that_is_no_string_was_written_by_an_old_sidekiq(config, running):
    running({"queue": "low", "payload": {"class": "Old", "args": [], "jid": "x"}, "run_at": 5})
    assert WorkSet(config).find_work("x") is not None


@pytest.mark.parametrize(
    "told",
    [
        "no json",
        b"\xff",
        "[]",
        "[" * 100_000,
        "{}",
        {"queue": 7, "payload": 7, "run_at": "x"},
        {"queue": None, "payload": "no job", "run_at": 10**400},
        '{"run_at":NaN,"payload":NaN,"queue":[]}',
        {"run_at": -5, "payload": "\ud800"},
    ],
)
def test_whatever_others_wrote_hides_nobody(config, running, told):
    running(told)
    running(run(2, 5), "t2")
    odd, other = sorted(WorkSet(config), key=lambda work: work.tid)
    assert (odd.queue, odd.run_at, odd.elapsed_seconds, odd.jid, odd.record.malformed) == ("", 0, 0, "", True)
    assert other.jid == "jid 2"


def test_a_job_of_ours_shows_itself_while_it_runs(config):
    begun, go_on = threading.Event(), threading.Event()
    previous = set_default_config(config)
    with registry.isolated():

        @job
        def wait(number: int) -> None:
            begun.set()
            go_on.wait(30)

        jid = wait.enqueue(7)
        launcher = Launcher(config)
        launcher.start()
        try:
            assert begun.wait(30)
            launcher._heartbeat.tick()
            work = WorkSet().find_work(jid)
        finally:
            go_on.set()
            launcher.stop()
            set_default_config(previous)
    assert work is not None
    assert (work.process, work.queue, work.record.args) == (launcher.identity, "default", [7])
