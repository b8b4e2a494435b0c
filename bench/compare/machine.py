"""CPU time and memory from /proc, and how much other programs disturbed a run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
NOISY_CORES = 0.15  # of CPU that others used
NOISY_SPIN = 1.25  # times the fastest loop of the run
SPINS = 200_000


@dataclass(frozen=True)
class Look:
    """CPU seconds so far.

    Attributes:
        workers: with their children.
        own: of this program, and of those it has waited for: producers.
        everybody: on the whole machine.
    """

    at_ns: int
    workers: float
    server: float
    own: float
    everybody: float


def look(workers: Iterable[int], server: int) -> Look:
    times = os.times()
    return Look(
        time.monotonic_ns(),
        sum(cpu_seconds(pid) for root in workers for pid in tree(root)),
        cpu_seconds(server),
        times.user + times.system + times.children_user + times.children_system,
        _busy_seconds(),
    )


def others_cores(before: Look, after: Look) -> float:
    """How many cores programs that have no part in the run kept busy, time stolen by other machines included."""
    seconds = max((after.at_ns - before.at_ns) / 1e9, 1e-9)
    return max(0.0, (_others(after) - _others(before)) / seconds)


def _others(seen: Look) -> float:
    return seen.everybody - seen.workers - seen.server - seen.own


def spin_ms() -> float:
    """How long a fixed piece of Python takes now: the speed of the machine."""
    started = time.perf_counter()
    total = 0
    for number in range(SPINS):
        total += number & 7
    return (time.perf_counter() - started) * 1000


def tree(pid: int) -> Iterator[int]:
    """A process and its descendants that live."""
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text("ascii").split():
                yield from tree(int(child))


def cpu_seconds(pid: int) -> float:
    """Of a process and those of its children that were reaped; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / TICKS


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident memory, and the part of it that is a fair share of pages in common (PSS)."""
    resident = shared = 0.0
    with suppress(OSError):
        resident = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * PAGE / 2**20
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                shared = int(line.split()[1]) / 1024
    return resident, shared


def _busy_seconds() -> float:
    fields = [int(field) for field in Path("/proc/stat").read_text("ascii").partition("\n")[0].split()[1:9]]
    user, nice, system, _idle, _wait, irq, soft, stolen = fields
    return (user + nice + system + irq + soft + stolen) / TICKS
