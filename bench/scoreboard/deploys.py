"""Parents: upgrades under load with the faults of deploys, and workers that are forked from a loaded application."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bench.compare.machine import process_name, tree
from bench.scoreboard.environment import Environment, Fleet
from bench.scoreboard.pusher import Pusher
from bench.scoreboard.row import Report, row
from tests.process.workers import MODULE, Worker, exists
from tests.waiting import wait_for

IN_CURRENT = ("sh", "-c", 'cd "$CURRENT" && exec "$@"', "sh", *MODULE)
GOOD = "from bench.scoreboard.application import *\n"
JOB_MS = 10.0
PROCESSES = 4


class Site:
    """A deployed application: numbered releases, a link to the current one, and the parent that runs it."""

    def __init__(self, folder: Path, fleet: Fleet) -> None:
        self._folder = folder
        self._fleet = fleet
        self._number = 0
        self._current = folder / "current"
        folder.mkdir()
        self._release()
        self._parent = self._start()

    def _start(self) -> Worker:
        started = self._fleet.start(
            "-p", "2", "-c", "4", "-t", "10", wait=False, app="app", command=IN_CURRENT, CURRENT=str(self._current)
        )
        started.until_says("now running: ", 60)
        return started

    def _release(self, text: str = GOOD) -> None:
        self._number += 1
        release = self._folder / str(self._number)
        release.mkdir()
        (release / "app.py").write_text(text)
        self._current.unlink(missing_ok=True)
        self._current.symlink_to(release)

    def _expect(self, text: str, action: Callable[[], object], *, times: int = 1) -> None:
        before = self._parent.output.count(text)
        action()
        self._parent.until_says(text, 60, times=before + times)

    def upgrade(self) -> None:
        self._release()
        self._expect("old worker ", lambda: self._parent.send("USR2"), times=2)

    def bad_code(self) -> None:
        self._release("1 / 0\n")
        self._expect("restart failed", lambda: self._parent.send("USR2"))

    def removed_folder(self) -> None:
        shutil.rmtree(self._current.resolve())
        self._current.unlink()
        self._expect("restart failed", lambda: self._parent.send("USR2"))

    def killed_fork_server(self) -> None:
        (server,) = (pid for pid in tree(self._parent.parent) if b"fork server" in command_of(pid))
        self._expect("the fork server was killed", lambda: os.kill(server, signal.SIGKILL))

    def killed_parent(self) -> None:
        _, *left = tree(self._parent.parent)
        os.kill(self._parent.parent, signal.SIGKILL)
        self._parent.ended()
        wait_for(lambda: not any(map(exists, left)), 30)
        self._parent = self._start()


def command_of(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@row(
    "R37",
    "a parent with 2 processes of 4 threads is upgraded by USR2 under load, each time with another fault: bad code, a "
    "removed folder, a killed fork server, a killed parent",
    bar="lost 0; duplicates 0, since every job fits the timeout",
)
def upgrades(env: Environment, report: Report) -> None:
    rounds, faults_per_upgrade = env.pick(smoke=(4, 3), full=(50, 1))
    server = env.server()
    site = Site(env.folder / "site", env.workers(server.url))
    pusher = Pusher(env.client(server.url), pause_seconds=0.005, ms=JOB_MS)
    faults = (site.bad_code, site.removed_folder, site.killed_fork_server, site.killed_parent)
    for number in range(rounds):
        faults[number % len(faults)]()
        if (number + 1) % faults_per_upgrade == 0:
            site.upgrade()
    env.finish(report, pusher.stop(), server, pushed=pusher.tried)
    report.nothing("duplicates", report.tally.duplicated)
    report.figure("upgrades", rounds // faults_per_upgrade)


@row(
    "R27",
    "a fork server that has loaded the application forks workers; each runs jobs, the first ones are killed; "
    "1,000 children in total",
    bar="deadlocks 0: every child runs jobs; no two processes share a connection; lost 0",
)
def forked_children(env: Environment, report: Report) -> None:
    forks = env.pick(smoke=16, full=1_000)
    server = env.server()
    client = env.client(server.url)
    # The row kills every first child: on a busy machine one job can be hit three times, which makes no poison pill.
    fleet = env.workers(server.url, OFFSIDER_WORKER_MAX_STRIKES="0")
    acked: list[str] = []
    known: set[str] = set()
    shared = 0
    hung = False
    while len(known) < forks and not hung:
        # Each place twice at most: a parent waits longer and longer before it restarts processes that die.
        parent = fleet.start("-c", "2", "--processes", str(PROCESSES))
        for generation in range(2):
            deadline = time.monotonic() + 30
            living: dict[str, int] = {}
            while len(living) < PROCESSES and time.monotonic() < deadline:
                acked += env.feed(server, client, 40, ms=10)
                time.sleep(0.05)
                living = children_at_work(env, parent.parent, known)
            hung = hung or len(living) < PROCESSES
            shared += shared_connections([*tree(parent.parent)], server.port)
            known |= living.keys()
            for pid in living.values() if generation == 0 else ():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        parent.stopped()
    fleet.start("-c", "4")
    env.finish(report, acked, server)
    report.count(f"children that ran a job >= {forks}, got {len(known)}", len(known) >= forks)
    report.nothing("shared connections", shared)
    report.figure("children", len(known))


def children_at_work(env: Environment, parent: int, known: set[str]) -> dict[str, int]:
    """Return name and number of the living children that have run a job, without known ones."""
    ran = env.ledger.counts("processes").keys() - known
    return {name: pid for pid in tree(parent) if (name := process_name(pid)) in ran}


def shared_connections(pids: list[int], port: int) -> int:
    """Return the number of connections to the server that several processes share."""
    fields = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    connections = {field[9] for field in fields if int(field[2].rpartition(":")[2], 16) == port}
    holders = Counter(inode for pid in pids for inode in sockets_of(pid) & connections)
    return sum(1 for times in holders.values() if times > 1)


def sockets_of(pid: int) -> set[str]:
    """Return the inodes of the sockets of a process."""
    found: set[str] = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
    return found
