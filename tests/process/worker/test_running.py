"""A running worker: counts, concurrent coroutines, unread output, a stop at any time."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.process.stored import private, push, waiting
from tests.process.workers import MODULE
from tests.waiting import wait_for


def test_runs_and_failures_are_counted_even_if_the_worker_stops_before_a_heartbeat(workers, stored, ledger):
    for number in range(30):
        push(stored, "Short", number)
    for _ in range(5):
        push(stored, "Failing")
    worker = workers.start("-c", "4")
    wait_for(lambda: len(ledger.notes("end")) == 30 and stored.zcard("retry") == 5)
    worker.stopped()
    assert (stored.get("stat:processed"), stored.get("stat:failed")) == (b"35", b"5")
    assert sum(int(stored.get(key)) for key in stored.scan_iter("stat:processed:*")) == 35


def test_the_count_of_running_jobs_agrees_with_the_jobs_that_rubys_pages_show(workers, stored):
    worker = workers.start("-c", "4", text=HELD)
    for count in range(1, 4):  # faster than heartbeats
        push(stored, "Held", count)
        wait_for(lambda count=count: stored.hget(worker.identity, "busy") == b"%d" % count)
        jobs = [json.loads(job) for job in stored.hvals(f"{worker.identity}:work")]
        assert sorted(json.loads(job["payload"])["args"] for job in jobs) == [
            [number] for number in range(1, count + 1)
        ]
    (workers.folder / "release").touch()
    wait_for(lambda: stored.hget(worker.identity, "busy") == b"0")
    assert stored.hlen(f"{worker.identity}:work") == 0


HELD = """
    import time
    from pathlib import Path
    from offsider import job

    @job(name="Held")
    def held(number):
        while not Path("release").exists():
            time.sleep(0.02)
"""


def test_coroutines_run_side_by_side_each_with_its_own_job(workers, stored, ledger):
    jids = {push(stored, "Async", 0.7) for _ in range(6)}
    workers.start("-c", "6")
    wait_for(lambda: set(ledger.counts("end")) == jids)
    assert ledger.events() == ["start"] * 6 + ["end"] * 6
    assert set(ledger.counts("start")) == jids


def test_a_queue_that_was_discovered_is_reclaimed_by_a_worker_that_does_not_serve_it(workers, stored, ledger):
    environ = {"OFFSIDER_WORKER_LIVENESS_SECONDS": "3"}
    doomed = workers.start("-q", "*", environ=environ)
    jid = push(stored, "Receiving", queue="odd:name")
    wait_for(lambda: ledger.notes("start", jid=jid), 10)
    doomed.kill()
    workers.start("-q", "other", environ=environ)
    (job,) = wait_for(lambda: waiting(stored, "odd:name"), 30)
    assert (job["jid"], job["interrupted_count"]) == (jid, 1)
    assert private(stored) == []


def test_a_worker_with_unread_output_continues(workers, stored, ledger):
    command = ("sh", "-c", 'exec "$@" | true', "sh", *MODULE)
    workers.start(command=command, wait=False)
    for number in range(20):
        jid = push(stored, "Short", number)
        wait_for(lambda jid=jid: ledger.notes("end", jid=jid))
    pid = ledger.notes("end")[0].pid
    assert len({item.pid for item in ledger.notes("end")}) == 1
    os.kill(pid, 15)
    wait_for(lambda: stored.hlen("offsider:owners") == 0)


def test_a_stop_during_the_startup_handlers_is_orderly(workers, stored, ledger):
    app = """
        import time
        from tests.process.ledger import note
        from tests.process.jobs import short

        def configure(config):
            @config.on("startup")
            def slow():
                print("starting up", flush=True)
                time.sleep(1.5)
            config.on("exit", lambda: note("exit"))
    """
    worker = workers.start(text=app, wait=False)
    worker.until_says("starting up")
    worker.send("TERM")
    assert worker.ended() == 0
    assert "Traceback" not in worker.output
    assert ledger.events() == ["exit"]
    assert stored.hlen("offsider:owners") == 0


@pytest.mark.parametrize("broken", ["raise ValueError('no such device')", "service.start = 1 / 0"])
def test_a_service_that_cannot_be_made_ends_the_start(workers, stored, broken):
    app = f"""
        def make(config):
            {broken}

        def configure(config):
            config.add_service(make)
    """
    worker = workers.start(text=app, wait=False)
    assert worker.ended() == 1
    assert "the worker cannot start" in worker.output
    assert "app.py:3" in worker.output
    assert "Traceback" not in worker.output
    assert stored.hlen("offsider:owners") == stored.scard("processes") == 0


def test_stops_in_the_middle_of_many_short_jobs_lose_and_double_none(workers, stored, ledger):
    """A clean stop, unlike a kill, runs nothing twice."""
    jids = {push(stored, "Short", number, 0.005) for number in range(600)}
    for round_ in range(4):
        worker = workers.start("-c", "5")
        wait_for(lambda round_=round_: len(ledger.counts("end")) > 100 * round_ + 50)
        worker.stopped()
        assert private(stored) == []
        assert len(ledger.notes("end")) + len(waiting(stored)) == len(jids)
    workers.start("-c", "5")
    wait_for(lambda: set(ledger.counts("end")) == jids)
    assert set(ledger.counts("start").values()) == {1}
    assert all("interrupted_count" not in job for job in waiting(stored))


def test_two_commands_in_a_row_on_one_terminal_leave_no_process(workers, stored):
    """As a person does it: start, Ctrl-C, look."""
    worker = workers.start()
    worker.send("INT")
    assert worker.ended() == 0
    shown = subprocess.run([sys.executable, "-m", "offsider", "version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("offsider ")
    left = {key.decode() for key in stored.scan_iter(count=1000) if not key.startswith(b"offsider:series:shards")}
    leases = {"offsider:sweep", "offsider:turn:limits", "process_cleanup"}  # they expire
    assert left <= {"queues", *leases}, left
