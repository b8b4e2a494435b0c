"""Quiet, dumps, signals left in Redis, and handlers that were there before ours."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.process.stored import push, waiting
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
