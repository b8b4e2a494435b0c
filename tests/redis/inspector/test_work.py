"""The jobs that run now in any process."""

from __future__ import annotations

import json
import threading
import time

import pytest

from offsider import job
from offsider.config.installation import Installation
from offsider.inspector import WorkSet
from offsider.storage import processes
from offsider.storage.activity import Activity, RunningJob, digest_of
from offsider.testing import FakeClock
from offsider.worker.launcher import Launcher
from tests.redis.inspector.payloads import JID, failed_job
from tests.waiting import wait_for

OURS = "web-1:17:0123456789ab"


@pytest.fixture
def running(raw_redis):
    def running(data: object, tid: str = "t1", identity: str = OURS, key: str = "work") -> None:
        raw_redis.sadd("processes", identity)
        raw_redis.hset(f"{identity}:{key}", tid, data if isinstance(data, str | bytes) else json.dumps(data))

    return running


def run(number: int, run_at: object) -> dict:
    payload = json.dumps({"class": "HardJob", "args": [number], "jid": f"jid {number}", "queue": "low"})
    return {"queue": "low", "payload": payload, "run_at": run_at}


def test_a_running_job_has_process_start_time_and_payload(config, running):
    running(run(1, int(config.clock.now()) - 60))
    [work] = WorkSet(config)
    assert (work.process, work.tid, work.queue, work.jid) == (OURS, "t1", "low", "jid 1")
    assert work.run_at == pytest.approx(config.clock.now() - 60, abs=5)
    assert work.elapsed_seconds == pytest.approx(60, abs=5)
    assert (work.record.name, work.record.args) == ("HardJob", [1])


def test_the_longest_running_job_of_all_processes_is_first(config, running):
    running(run(1, 300), "t1", "b:1:x")
    running(run(2, 200), "t2", "b:1:x")
    running(run(3, 400), "t1", "a:1:x")
    assert [work.record.args for work in WorkSet(config)] == [[2], [1], [3]]
    assert len(WorkSet(config)) == 3


@pytest.mark.parametrize("version, key", [(6, "workers"), (7, "work"), (8, "work")])
def test_the_jobs_of_ruby_processes_of_every_version_are_found(config, running, version, key):
    running({"queue": "low", "payload": failed_job(version).decode(), "run_at": 1795216790}, key=key)
    work = WorkSet(config).find_work(JID)
    assert work is not None
    assert (work.run_at, work.record.name) == (1795216790, "HardJob")
    assert WorkSet(config).find_work("f" * 24) is None


def test_a_payload_that_is_not_a_string_is_of_an_old_sidekiq(config, running):
    running({"queue": "low", "payload": {"class": "Old", "args": [], "jid": "x"}, "run_at": 5})
    assert WorkSet(config).find_work("x") is not None


@pytest.mark.parametrize(
    "data",
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
def test_invalid_data_of_others_hides_no_process(config, running, data):
    running(data)
    running(run(2, 5), "t2")
    odd, other = sorted(WorkSet(config), key=lambda work: work.tid)
    assert (odd.queue, odd.run_at, odd.elapsed_seconds, odd.jid, odd.record.malformed) == ("", 0, 0, "", True)
    assert other.jid == "jid 2"


def write(config, identity: str, running: dict[str, RunningJob]) -> None:
    pool, busy = Installation.of(config).make_redis(1), {"busy": len(running)}
    processes.write(pool, identity, busy, {}, Activity(running=running), ended=(), is_beat=False, wire_version=8)


@pytest.fixture
def reported(config, raw_redis):
    """Claims jobs for a process and writes its report: job number -> seconds that it has run."""

    def reported(elapsed: dict[int, float], identity: str = OURS) -> list[bytes]:
        raw_redis.sadd("processes", identity)
        raw_redis.hset(identity, mapping={"info": "{}", "busy": len(elapsed)})
        raws = [json.dumps({"class": "J", "args": [n], "jid": f"{identity} {n}"}).encode() for n in elapsed]
        for raw in raws:
            raw_redis.lpush(f"offsider:working:{identity}:default:low", raw)
        running = {
            f"t{number}": RunningJob("default", "low", digest_of(raw), seconds)
            for raw, (number, seconds) in zip(raws, elapsed.items(), strict=True)
        }
        write(config, identity, running)
        return raws

    return reported


def test_the_age_of_a_reported_job_is_exact_by_the_clock_of_the_server(config, reported):
    config.clock = FakeClock()  # clocks of hosts may differ
    reported({1: 30.25})
    [work] = WorkSet(config)
    assert (work.process, work.tid, work.queue, work.record.args) == (OURS, "t1", "low", [1])
    assert 30.25 <= work.elapsed_seconds < 60
    assert time.time() - work.run_at == pytest.approx(30.25, abs=29)


def test_a_job_that_has_ended_since_the_report_is_not_shown(config, raw_redis, reported):
    first, _second = reported({1: 5.0, 2: 0.1})
    raw_redis.lrem(f"offsider:working:{OURS}:default:low", 1, first)
    assert [work.record.args for work in WorkSet(config)] == [[2]]


def test_older_heartbeat_data_of_a_reporting_process_is_ignored(config, running, reported):
    running(run(9, int(time.time()) - 4))
    reported({1: 0.5})
    assert [work.record.args for work in WorkSet(config)] == [[1]]


def test_reported_jobs_and_those_of_ruby_are_sorted_together_by_age(config, running, reported):
    running(run(7, int(config.clock.now()) - 60), identity="ruby:1:x")
    reported({1: 5.0, 2: 90.0})
    reported({3: 70.0}, identity="web-2:17:0123456789ab")
    assert [work.record.args for work in WorkSet(config)] == [[2], [3], [7], [1]]


def test_equal_payloads_that_run_twice_are_both_shown(config, raw_redis, reported):
    [raw] = reported({1: 5.0})
    raw_redis.lpush(f"offsider:working:{OURS}:default:low", raw)
    job = RunningJob("default", "low", digest_of(raw), 5.0)
    write(config, OURS, {"t1": job, "t2": job})
    assert len(WorkSet(config)) == 2


def test_our_own_job_is_listed_while_it_runs(default_config):
    begun, go_on = threading.Event(), threading.Event()

    @job
    def wait(number: int) -> None:
        begun.set()
        go_on.wait(30)

    jid = wait.enqueue(7)
    launcher = Launcher(default_config)
    launcher.start()
    try:
        assert begun.wait(30)
        wait_for(lambda: WorkSet().find_work(jid), what="the next report")
        work = WorkSet().find_work(jid)
    finally:
        go_on.set()
        launcher.stop()
    assert work is not None
    assert (work.process, work.queue, work.record.args) == (launcher.identity, "default", [7])
