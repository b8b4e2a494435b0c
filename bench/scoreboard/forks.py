"""Processes that are forked after the application was loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from bench.scoreboard.ground import Ground
from bench.scoreboard.processes import children
from bench.scoreboard.row import Report, row

PROCESSES = 3


@row(
    "R27",
    "a supervisor has loaded the application and forks children, each of which is killed when it has run a job, "
    "1,000 times",
    bar="deadlocks 0: every child runs jobs; no two processes share a connection; lost 0",
    heavy=True,
)
def forked_children(ground: Ground, report: Report) -> None:
    if not knows_processes():
        report.partial.append("everything: this version has no `--processes`")
        return
    forks = ground.pick(smoke=9, full=1_000)
    server = ground.server()
    client = ground.client(server.url)
    fleet = ground.workers(server.url)
    supervisor = fleet.start("-c", "2", "--processes", str(PROCESSES), "--preload", wait=False)
    acked: list[str] = []
    ended: set[int] = set()
    shared = 0
    while len(ended) < forks and supervisor.runs:
        acked += ground.push(client, 40, ms=10, name="scoreboard.Work")
        living = children_at_work(ground, supervisor.pid, ended)
        if len(living) < PROCESSES:
            break
        shared += shared_connections([supervisor.pid, *children(supervisor.pid)], server.port)
        for pid in living:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            ended.add(pid)
    ground.ledger.until(len(acked), quiet_seconds=30)
    ground.settled(server)
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    report.count("the supervisor still runs", supervisor.runs)
    report.count(f"children that ran a job >= {forks}, got {len(ended)}", len(ended) >= forks)
    report.count(f"shared connections 0, got {shared}", shared == 0)
    report.figure("children", len(ended))


def knows_processes() -> bool:
    """Whether the command line has what the row needs."""
    command = [sys.executable, "-m", "offsider", "worker", "--help"]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return "--processes" in told and "--preload" in told


def children_at_work(ground: Ground, supervisor: int, ended: set[int]) -> set[int]:
    """The living children that have run a job; waits until there are enough, or for 30 s: then one hangs."""
    deadline = time.monotonic() + 30
    while True:
        at_work = {int(pid) for pid in ground.ledger.counts("pids")} & {*children(supervisor)} - ended
        if len(at_work) >= PROCESSES or time.monotonic() > deadline:
            return at_work
        time.sleep(0.05)


def shared_connections(pids: list[int], port: int) -> int:
    """How many connections to the server are open in more than one process."""
    inodes = connections_to(port)
    holders = Counter(inode for pid in pids for inode in sockets_of(pid) if inode in inodes)
    return sum(1 for times in holders.values() if times > 1)


def connections_to(port: int) -> set[str]:
    lines = Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]
    fields = [line.split() for line in lines]
    return {field[9] for field in fields if int(field[2].rpartition(":")[2], 16) == port}


def sockets_of(pid: int) -> set[str]:
    found: set[str] = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found
