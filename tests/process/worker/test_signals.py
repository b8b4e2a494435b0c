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

# The first heartbeat is sent at the start, the second after ten seconds.
BEAT_SECONDS = 20


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


def test_a_quiet_worker_moves_no_scheduled_jobs(workers, stored, ledger):
    worker = workers.start()
    worker.send("TSTP")
    worker.until_says("quiet: this worker claims no new jobs")
    stored.zadd("schedule", {b'{"class":"Short","args":[1],"jid":"a","queue":"default"}': 1})
    workers.start("-q", "other").send("TSTP")
    worker.stopped()
    # The second worker's scheduler may have moved it, none of the two has run it.
    assert ledger.notes() == []


@pytest.mark.parametrize("name", ["TSTP", "TERM"])
def test_signals_left_in_redis_are_obeyed_at_the_next_beat(workers, stored, name):
    worker = workers.start()
    leave_signal(stored, worker.identity, name)
    worker.until_says("quiet: this worker claims no new jobs", BEAT_SECONDS)
    if name == "TERM":
        assert worker.ended() == 0
    else:
        wait_for(lambda: stored.hget(worker.identity, "quiet") == b"true", BEAT_SECONDS)
        assert worker.runs


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
    subprocess.run(command, check=True, env=os.environ | {"REDIS_URL": url}, timeout=40)


def test_a_dump_shows_threads_and_asyncio_tasks(workers, stored, ledger):
    push(stored, "Long", 30)
    push(stored, "Async", 30)
    worker = workers.start("-c", "2", "-t", "0")
    wait_for(lambda: len(ledger.notes("start")) == 2)
    worker.send("TTIN")
    printed = worker.until_says("asyncio task")
    worker.until_says("await asyncio.sleep(seconds)")
    assert "offsider-default-1" in printed
    assert "time.sleep(0.02)" in worker.output
    assert "MainThread" in printed

    leave_signal(stored, worker.identity, "TTIN")
    worker.until_says("asyncio task", BEAT_SECONDS, times=2)
    worker.stopped()


def test_a_dump_works_while_jobs_are_waited_for(workers, stored, ledger):
    push(stored, "Long", 30)
    worker = workers.start("-c", "1", "-t", "4")
    wait_for(lambda: ledger.notes("start"))
    worker.send("TERM")
    worker.until_says("quiet: this worker claims no new jobs")
    worker.send("TTIN")
    worker.until_says("time.sleep(0.02)")
    assert worker.ended() == 0


def test_an_unknown_signal_in_redis_is_only_logged(workers, stored):
    worker = workers.start()
    leave_signal(stored, worker.identity, "NONSENSE")
    worker.until_says("ignoring the signal NONSENSE: a worker does not handle it", BEAT_SECONDS)
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


@pytest.mark.parametrize("options", [(), ("-p", "1")], ids=["alone", "restarted"])
@pytest.mark.parametrize("name", ["HUP", "QUIT"])
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
@pytest.mark.parametrize("options", [(), ("-p", "1")], ids=["alone", "restarted"])
def test_signals_without_a_meaning_end_no_process(workers, stored, ledger, options):
    every = {number: getattr(number, "name", str(number)).removeprefix("SIG") for number in signal.valid_signals()}
    known = OF_A_CRASH | STOPS_THE_PROCESS | WITH_A_MEANING | SILENT
    logged = [name for name in every.values() if name not in known]
    assert {"USR1", "ALRM", "VTALRM", "PROF"} <= set(logged)
    jid = push(stored, "Long", 60)
    worker = workers.start("-c", "1", "-t", "1", *options, measured=False)
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


STARTUP_HANDLER = """
import faulthandler
import signal
from tests.process.ledger import note

faulthandler.register(signal.SIGUSR1)

def configure(config):
    @config.on("startup")
    def replace():
        signal.signal(signal.SIGTERM, lambda number, frame: note("heard"))
        signal.set_wakeup_fd(-1)
"""


def test_handlers_set_at_startup_are_called_and_the_worker_stops(workers, ledger):
    worker = workers.start(text=STARTUP_HANDLER)
    worker.send("USR1")
    worker.until_says("most recent call first")
    assert "ignoring the signal USR1" not in worker.output
    worker.stopped()
    assert ledger.events() == ["heard"]


MANY_FILES = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
for _ in range(1100):
    os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.parametrize("options", [(), ("-p", "1")], ids=["alone", "restarted"])
def test_a_worker_that_inherits_a_thousand_files_runs_and_stops(workers, stored, ledger, options):
    worker = workers.start(*options, command=(sys.executable, "-c", MANY_FILES, *MODULE[1:]))
    push(stored, "Short")
    wait_for(lambda: ledger.notes("end"))
    worker.stopped()


NO_MORE_THREADS = """
import threading
from offsider import job
from tests.process.ledger import note

{fault}

@job(name="Exhaust")
def exhaust():
    exhausted()
    note("exhausted")
"""


@pytest.mark.parametrize(
    "fault",
    [
        "def exhausted(): threading.stack_size(2**40)",
        "def exhausted(): threading.excepthook = None",
    ],
    ids=["stack size", "excepthook"],
)
def test_a_process_that_can_start_no_more_threads_still_stops_in_order(workers, stored, ledger, fault):
    worker = workers.start("-c", "2", "-t", "1", text=NO_MORE_THREADS.format(fault=fault) + BYSTANDER, measured=False)
    jid = push(stored, "Bystander")
    wait_for(lambda: ledger.notes("bystander"))
    push(stored, "Exhaust")
    wait_for(lambda: ledger.notes("exhausted"))
    worker.send("TSTP")
    worker.until_says("quiet: this worker claims no new jobs")
    worker.send("TERM")
    assert worker.ended() == 0, worker.output
    counts = {job["jid"]: job["interrupted_count"] for job in waiting(stored)}
    assert counts[jid] == 1
    assert private(stored) == list(stored.scan_iter("offsider:strikes:*")) == []


BYSTANDER = """
import time

@job(name="Bystander")
def bystander():
    note("bystander")
    while True:
        time.sleep(0.02)
"""
