"""Finds processes and their children in /proc."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.process.workers import Worker


def children(pid: int) -> list[int]:
    """Return the living descendants of a process."""
    found: list[int] = []
    parents = _parents()
    wanted = {pid}
    while wanted:
        wanted = {child for child, parent in parents.items() if parent in wanted}
        found += sorted(wanted)
    return found


def name_of(pid: int) -> str:
    """Return the number of a process with the time of its start, because numbers are reused; empty if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return f"{pid}@{fields[19]}"


def kill_host(*workers: Worker) -> None:
    """Kill processes and all their descendants at once, as if their machine died."""
    doomed = [pid for worker in workers for pid in (worker.parent, *children(worker.parent))]
    for pid in doomed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # so that none of them can react to the death of another one
    for pid in doomed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for worker in workers:
        worker.process.wait()


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process in MB."""
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
