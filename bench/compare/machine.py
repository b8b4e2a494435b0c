"""Reads CPU times and memory of processes from /proc, and measures the disturbance by other programs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
#: A run is noisy if other programs used more cores, or if a fixed loop took this factor of its minimum.
NOISY_CORES = 0.15
NOISY_SPIN = 1.25
SPINS = 200_000


@dataclass(frozen=True)
class CpuTimes:
    """CPU seconds up to a time.

    Attributes:
        workers: workers with their children.
        own: this program and its ended children, which are producers.
        machine: the whole machine.
        proxy: the proxy between workers and server; 0 without one.
    """

    at_ns: int
    workers: float
    server: float
    own: float
    machine: float
    proxy: float = 0.0


def read_cpu_times(workers: Iterable[int], server: int, *, proxy: int = 0) -> CpuTimes:
    """Read the CPU times of these processes; ``proxy`` is the process ID of the proxy, or 0."""
    times = os.times()
    return CpuTimes(
        time.monotonic_ns(),
        sum(cpu_seconds(pid) for root in workers for pid in tree(root)),
        cpu_seconds(server),
        times.user + times.system + times.children_user + times.children_system,
        _busy_seconds(),
        cpu_seconds(proxy) if proxy else 0.0,
    )


def others_cores(before: CpuTimes, after: CpuTimes) -> float:
    """Return the number of cores that other programs used, including time stolen by other virtual machines."""
    seconds = max((after.at_ns - before.at_ns) / 1e9, 1e-9)
    return max(0.0, (_others(after) - _others(before)) / seconds)


def proxy_cores(before: CpuTimes, after: CpuTimes) -> float:
    """Return the number of cores that the proxy used. Near 1, the proxy limits the run."""
    return (after.proxy - before.proxy) / max((after.at_ns - before.at_ns) / 1e9, 1e-9)


def _others(seen: CpuTimes) -> float:
    return seen.machine - seen.workers - seen.server - seen.own - seen.proxy


def spin_ms() -> float:
    """Return the duration of a fixed loop, which measures the current speed of the machine."""
    started = time.perf_counter()
    total = 0
    for number in range(SPINS):
        total += number & 7
    return (time.perf_counter() - started) * 1000


def tree(pid: int) -> Iterator[int]:
    """Return a process and its living descendants."""
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text("ascii").split():
                yield from tree(int(child))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its reaped children; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / TICKS


def process_name(pid: int) -> str:
    """Return process ID and start time, because IDs are reused; empty if the process has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return f"{pid}@{fields[19]}"


def memory_mb(pid: int) -> tuple[float, float]:
    """Return the resident (RSS) and the proportional memory (PSS) of a process in MB."""
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
