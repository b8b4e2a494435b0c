"""An unread log: the worker runs all jobs, stops in time, and later logs the number of dropped lines."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import pytest

from tests.process.stored import payload, private, push_raw, sorted_set, waiting
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads a pipe of the worker (Linux)")

JOBS = 3000
# Standard output and error are a pipe of which the worker itself holds the only other end.
UNREAD = (
    "import os, sys\n"
    "reading, writing = os.pipe()\n"
    "os.dup2(writing, 1)\n"
    "os.dup2(writing, 2)\n"
    "os.dup2(reading, 99)\n"
    "os.set_inheritable(99, True)\n"
    "os.execv(sys.executable, [sys.executable, '-m', 'offsider', 'worker', *sys.argv[1:]])\n"
)
COMMAND = (sys.executable, "-c", UNREAD)


def push_many(stored, count: int) -> list[str]:
    import json

    jobs = [payload("Short", number) for number in range(count)]
    push_raw(stored, *(json.dumps(job).encode() for job in jobs))
    return [job["jid"] for job in jobs]


def read_log(pid: int, seconds: float = 3.0) -> str:
    """The content of the pipe, and new data for a while."""
    found = b""
    reading = os.open(f"/proc/{pid}/fd/99", os.O_RDONLY | os.O_NONBLOCK)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            found += os.read(reading, 65536)
        except BlockingIOError:
            time.sleep(0.01)
    os.close(reading)
    return found.decode()


@pytest.mark.parametrize("options", [(), ("--processes", "1")], ids=["one process", "parent"])
def test_a_worker_with_an_unread_log_runs_and_stops(workers, stored, ledger, options):
    worker = workers.start("-c", "4", *options, command=COMMAND, wait=False, measured=False)
    jids = push_many(stored, JOBS)
    wait_for(lambda: len(ledger.notes("end")) == JOBS, 90)
    assert set(ledger.counts("end").values()) == {1}
    assert set(ledger.counts("end")) == set(jids)
    wait_for(lambda: private(stored) == [])
    worker.send("TERM")
    assert worker.ended(20) == 0
    assert waiting(stored) == sorted_set(stored, "retry") == []


def test_a_returning_reader_gets_the_number_of_dropped_lines(workers, stored, ledger):
    worker = workers.start("-c", "4", command=COMMAND, wait=False, measured=False)
    push_many(stored, 2 * JOBS)
    wait_for(lambda: len(ledger.notes("end")) == 2 * JOBS, 120)
    push_many(stored, 1)
    text = read_log(worker.pid)
    dropped = re.search(r"WARN .* dropped_lines=(\d+): (\d+) lines of the log dropped: the reader was blocked\n", text)
    assert dropped, text[-500:]
    lines = [line for line in text.splitlines() if "class=Short" in line]
    assert 1000 < len(lines) + int(dropped[1]) <= 2 * (2 * JOBS + 1) + 20
    assert all(line.startswith(("INFO", "WARN", "DEBUG")) for line in text.splitlines()), "no line is cut"
    push_many(stored, 1)
    assert "class=Short" in read_log(worker.pid)
    worker.send("TERM")
    assert worker.ended(20) == 0
