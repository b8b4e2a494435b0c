"""Processes that are forked after the application has been loaded."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bench.scoreboard.ground import Ground
from bench.scoreboard.processes import children, name_of
from bench.scoreboard.row import Report, row

PROCESSES = 4


@row(
    "R27",
    "a fork server that has loaded the application forks workers; each runs jobs, the first ones are killed; "
    "1,000 children in total",
    bar="deadlocks 0: every child runs jobs; no two processes share a connection; lost 0",
    heavy=True,
)
def forked_children(ground: Ground, report: Report) -> None:
    forks = ground.pick(smoke=16, full=1_000)
    server = ground.server()
    client = ground.client(server.url)
    # The row kills every first child: on a busy machine one job can be hit three times, which makes no poison pill.
    fleet = ground.workers(server.url, OFFSIDER_WORKER_MAX_STRIKES="0")
    acked: list[str] = []

    def feed() -> None:
        if server.raw.llen("queue:default") < 20:
            acked.extend(ground.push(client, 40, ms=10))

    born: set[str] = set()
    shared = 0
    hung = False
    while len(born) < forks and not hung:
        # Each place twice at most: a parent waits longer and longer before it restarts processes that die.
        parent = fleet.start("-c", "2", "--processes", str(PROCESSES))
        for generation in range(2):
            living = children_at_work(ground, parent.parent, born, feed)
            hung = hung or len(living) < PROCESSES
            shared += shared_connections([parent.parent, *children(parent.parent)], server.port)
            born |= living.keys()
            for pid in living.values() if generation == 0 else ():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        parent.stopped()
    fleet.start("-c", "4")
    ground.ledger.until(len(acked), quiet_seconds=30)
    ground.settled(server)
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    report.count(f"children that ran a job >= {forks}, got {len(born)}", len(born) >= forks)
    report.count(f"shared connections 0, got {shared}", shared == 0)
    report.figure("children", len(born))


def children_at_work(ground: Ground, parent: int, before: set[str], feed: Callable[[], None]) -> dict[str, int]:
    """Return name and number of the living children that have run a job; wait for all of them, at most 30 s.

    Args:
        before: names of children that are known already.
    """
    deadline = time.monotonic() + 30
    while True:
        feed()
        ran = ground.ledger.counts("processes").keys() - before
        at_work = {name: pid for pid in children(parent) if (name := name_of(pid)) in ran}
        if len(at_work) >= PROCESSES or time.monotonic() > deadline:
            return at_work
        time.sleep(0.05)


def shared_connections(pids: list[int], port: int) -> int:
    """Return the number of connections to the server that several processes share."""
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
