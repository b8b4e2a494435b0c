"""Processes and their children, as the kernel lists them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.process.workers import Worker


def children(pid: int) -> list[int]:
    """The living processes that a process has started, and those that these have."""
    found: list[int] = []
    parents = _parents()
    wanted = {pid}
    while wanted:
        wanted = {child for child, parent in parents.items() if parent in wanted}
        found += sorted(wanted)
    return found


def kill_host(*workers: Worker) -> None:
    """Kill processes with all that belongs to them at once, as when their machine is gone."""
    doomed = [pid for worker in workers for pid in (worker.pid, *children(worker.pid))]
    for pid in doomed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # so that none of them sees another one die
    for pid in doomed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for worker in workers:
        worker.process.wait()


def resident_mb(pid: int) -> float:
    """Resident memory of a process, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                stat = (entry / "stat").read_text("ascii", errors="replace")
                found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return found
