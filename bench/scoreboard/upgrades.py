"""Upgrades of a parent under load, with the faults of deploys, and the time until a killed worker's jobs are back."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import quantiles

from bench.scoreboard.ground import Fleet, Ground, until
from bench.scoreboard.processes import children
from bench.scoreboard.row import Report, row
from tests.process.workers import MODULE, Worker, exists
from tests.waiting import wait_for

IN_CURRENT = ("sh", "-c", 'cd "$CURRENT" && exec "$@"', "sh", *MODULE)
GOOD = "from bench.scoreboard.application import *\n"
JOBS = 150
JOB_MS = 10.0


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
        self.upgrade()

    def removed_folder(self) -> None:
        shutil.rmtree(self._current.resolve())
        self._current.unlink()
        self._expect("restart failed", lambda: self._parent.send("USR2"))
        self.upgrade()

    def killed_fork_server(self) -> None:
        (server,) = (pid for pid in children(self._parent.parent) if b"fork server" in command_of(pid))
        self._expect("the fork server was killed", lambda: os.kill(server, signal.SIGKILL))
        self.upgrade()

    def killed_parent(self) -> None:
        left = children(self._parent.parent)
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
def upgrades(ground: Ground, report: Report) -> None:
    rounds = ground.pick(smoke=5, full=50)
    server = ground.server()
    client = ground.client(server.url)
    site = Site(ground.folder / "site", ground.workers(server.url))
    faults = (site.upgrade, site.bad_code, site.removed_folder, site.killed_fork_server, site.killed_parent)
    acked: list[str] = []
    for number in range(rounds):
        acked += ground.push(client, JOBS, ms=JOB_MS)
        faults[number % len(faults)]()
    acked += ground.push(client, JOBS, ms=JOB_MS)
    ground.ledger.until(len(acked), quiet_seconds=30)
    ground.settled(server)
    report.tally = ground.tally(acked, server)
    report.nothing_missing()
    report.count(f"duplicates 0, got {report.tally.duplicated}", report.tally.duplicated == 0)
    report.figure("upgrades", rounds)


@row(
    "R38",
    "a worker is killed (`kill -9`) while it runs a job, every other time after its process was stopped (SIGSTOP)",
    bar="the job is back in its queue: p50 < 0.3 s, p99 < 1 s",
)
def requeue_times(ground: Ground, report: Report) -> None:
    rounds = ground.pick(smoke=6, full=100)
    server = ground.server()
    fleet = ground.workers(server.url)
    acked = ground.push(ground.client(server.url), 1, ms=60_000)
    seconds: list[float] = []
    for number in range(rounds):
        worker = fleet.start("-c", "1", OFFSIDER_WORKER_MAX_STRIKES="0")
        until(lambda: server.raw.llen("queue:default") == 0)
        pid = worker.pid
        if number % 2:
            os.kill(pid, signal.SIGSTOP)
        killed_at = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        until(lambda: server.raw.llen("queue:default") == 1)
        seconds.append(time.monotonic() - killed_at)
        worker.ended()
    report.tally = ground.tally(acked, server)
    report.count(f"lost 0, got {report.tally.lost}", report.tally.lost == 0)
    cuts = quantiles(seconds, n=100, method="inclusive")
    report.timed(f"p50 < 0.3 s: {cuts[49]:.3f}", cuts[49] < 0.3)
    report.timed(f"p99 < 1 s: {cuts[98]:.3f}", cuts[98] < 1.0)
    report.figure("seconds, p50 and p99", f"{cuts[49]:.3f}, {cuts[98]:.3f}")
