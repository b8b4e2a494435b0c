"""Quiet, dumps, signals left in Redis, and handlers that were there before ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.stored import private, push, sorted_set, waiting
from tests.process.workers import MODULE
from tests.waiting import wait_for


def leave_signal(stored, identity: str, name: str) -> None:
    """As Sidekiq's web page does."""
    stored.lpush(f"{identity}-signals", name)
    stored.expire(f"{identity}-signals", 60)


def test_a_quiet_worker_finishes_its_job_fetches_no_more_and_stays(workers, stored, ledger):
    running = push(stored, "Short", 1, 1.0)
    worker = workers.start("-c", "1")
    wait_for(lambda: ledger.notes("start", jid=running))
    worker.send("TSTP")
    worker.until_says("quiet: this worker claims no new jobs")
    left = push(stored, "Short", 2)
    wait_for(lambda: ledger.notes("end", jid=running))
    worker.send("TSTP")
    later = workers.start("-q", "other")  # takes its time, in which the quiet one would have taken the job
    assert [job["jid"] for job in waiting(stored)] == [left]
    assert worker.runs
    worker.stopped()
    later.stopped()
    assert worker.output.count("quiet: this worker claims no new jobs") == 1
    assert not ledger.notes("start", jid=left)


def test_workers_are_quieted_and_stopped_from_elsewhere(workers, url):
    worker = workers.start()
    _, _, nonce = worker.identity.split(":")
    offsider("quiet", nonce, url=url)
    worker.until_says("quiet: this worker claims no new jobs")
    offsider("stop", str(worker.pid), url=url)
    assert worker.ended() == 0


def offsider(*words: str, url: str) -> None:
    """As typed on another machine."""
    command = [sys.executable, "-m", "offsider", *words]
    subprocess.run(command, check=True, env=os.environ | {"REDIS_URL": url}, timeout=60)


def test_a_dump_shows_threads_and_asyncio_tasks(workers, stored, ledger):
    push(stored, "Long", 3600)
    push(stored, "Async", 3600)
    worker = workers.start("-c", "2", "-t", "0")
    wait_for(lambda: len(ledger.notes("start")) == 2)
    worker.send("TTIN")
    printed = worker.until_says("-1 Async jid=")
    worker.until_says("await asyncio.sleep(seconds)")
    assert "offsider-default-1" in printed
    assert "time.sleep(0.02)" in worker.output
    assert "MainThread" in printed

    leave_signal(stored, worker.identity, "TTIN")
    worker.until_says("asyncio task", times=2)
    worker.stopped()


HANDLERS = """
import signal
from tests.process.ledger import note

def heard(number, frame):
    note("heard", word=signal.Signals(number).name)

def breaks(number, frame):
    note("broke", word=signal.Signals(number).name)
    raise SystemExit("out of the handler")

signal.signal(signal.SIGTERM, heard)
signal.signal(signal.SIGTSTP, breaks)
"""


def test_handlers_of_the_application_are_called_first_and_a_failing_one_is_reported(workers, ledger):
    worker = workers.start(text=HANDLERS)
    worker.send("TSTP")
    worker.until_says("an earlier handler of TSTP failed: SystemExit: out of the handler")
    worker.until_says("quiet: this worker claims no new jobs")
    worker.stopped()
    assert ledger.words("broke") == ["SIGTSTP"]
    assert ledger.words("heard") == ["SIGTERM"]


# ------------------------------------------------------------------------------- every other signal


@pytest.mark.parametrize("name, options", [("HUP", ()), ("QUIT", ("-p", "1"))])
def test_hup_and_quit_stop_in_order_and_are_no_strike(workers, stored, ledger, name, options):
    jid = push(stored, "Long", 60)
    # QUIT does not wait for the timeout.
    worker = workers.start("-c", "1", "-t", "1" if name == "HUP" else "60", *options, measured=False)
    wait_for(lambda: ledger.notes("start", jid=jid))
    worker.send(name)
    assert worker.ended() == 0
    (job,) = waiting(stored)
    assert (job["jid"], job["interrupted_count"]) == (jid, 1)
    assert private(stored) == sorted_set(stored, "dead") == list(stored.scan_iter("offsider:strikes:*")) == []


OF_A_CRASH = {"KILL", "SEGV", "BUS", "ILL", "FPE", "ABRT", "TRAP", "SYS", "XCPU"}
STOPS_THE_PROCESS = {"STOP", "TTOU"}
WITH_A_MEANING = {"TERM", "INT", "HUP", "QUIT", "TSTP", "TTIN", "USR2"}
#: Nothing happens in any Python program.
SILENT = {"CHLD", "CONT", "PIPE", "URG", "WINCH", "XFSZ"}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc (Linux)")
def test_signals_without_a_meaning_end_no_process(workers, stored, ledger):
    every = {number: getattr(number, "name", str(number)).removeprefix("SIG") for number in signal.valid_signals()}
    known = OF_A_CRASH | STOPS_THE_PROCESS | WITH_A_MEANING | SILENT
    logged = [name for name in every.values() if name not in known]
    assert {"USR1", "ALRM", "VTALRM", "PROF"} <= set(logged)
    jid = push(stored, "Long", 60)
    worker = workers.start("-c", "1", "-t", "1", "-p", "1", measured=False)
    started = wait_for(lambda: ledger.notes("start", jid=jid))[0].pid
    for pid in (worker.parent, started):
        for number, name in every.items():
            if name in logged or name in SILENT:
                os.kill(pid, number)
    for name in logged:
        worker.until_says(f"ignoring the signal {name}: ")
    assert len(ledger.notes("start")) == 1
    worker.stopped()
    assert list(stored.scan_iter("offsider:strikes:*")) == []


def test_nohup_keeps_a_worker_running(workers, stored, ledger):
    worker = workers.start(command=("nohup", *MODULE))
    worker.send("HUP")
    push(stored, "Short")
    wait_for(lambda: ledger.notes("end"))
    worker.stopped()


INHERITED = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""

EXIT_CODE = """
import subprocess
from offsider import job
from tests.process.ledger import note

@job(name="ExitCode")
def exit_code():
    note("code", word=subprocess.run(["false"]).returncode)
"""


def test_blocked_and_ignored_signals_are_not_inherited(workers, stored, ledger):
    worker = workers.start(text=EXIT_CODE, command=(sys.executable, "-c", INHERITED, *MODULE[1:]))
    push(stored, "ExitCode")
    wait_for(lambda: ledger.notes("code"))
    assert ledger.words("code") == ["1"]
    worker.stopped()


NO_MORE_THREADS = """
import threading, time
from offsider import job
from tests.process.ledger import note

@job(name="Exhaust")
def exhaust():
    threading.stack_size(2**40)
    note("exhausted")

@job(name="Bystander")
def bystander():
    note("bystander")
    while True:
        time.sleep(0.02)
"""


def test_a_process_that_can_start_no_more_threads_still_stops_in_order(workers, stored, ledger):
    worker = workers.start("-c", "2", "-t", "1", text=NO_MORE_THREADS, measured=False)
    jid = push(stored, "Bystander")
    wait_for(lambda: ledger.notes("bystander"))
    worker.send("TTIN")
    worker.until_says("MainThread")  # which has started all threads of a boot and now handles signals
    push(stored, "Exhaust")
    wait_for(lambda: ledger.notes("exhausted"))
    worker.send("TSTP")
    worker.until_says("quiet: this worker claims no new jobs")
    worker.send("TERM")
    assert worker.ended() == 0, worker.output
    counts = {job["jid"]: job["interrupted_count"] for job in waiting(stored)}
    assert counts[jid] == 1
    assert private(stored) == list(stored.scan_iter("offsider:strikes:*")) == []
