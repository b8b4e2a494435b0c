"""Measures the cost of an idle worker, and its boot time.

    python3 dev.py bench idle

1. boot: from the start of the process to the start of a job in its queue
2. idle with 1 and with 16 queues: commands per second by purpose (from MONITOR) and as the server counts them, with
   those of scripts; CPU and memory of each process
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from bench.bar import Bar
from bench.compare.bench import BOOT_SECONDS, Bench, bench, wait_until
from bench.compare.contestant import Contestant
from bench.compare.machine import cpu_seconds, memory_mb, tree
from bench.compare.rivals.offsider import CONTESTANTS
from bench.idle.purposes import HEARTBEAT, LEASE, WAITING, Purposes, counted

OFFSIDER = CONTESTANTS[0]
PROGRAMS = Path(sys.executable).parent
#: Until a heartbeat has written the counts of the job, and the boot has ended.
SETTLE_SECONDS = 15.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="dev.py bench idle", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="how long to observe the idle worker")
    parser.add_argument("--boots", type=int, default=5)
    options = parser.parse_args()
    boots = [boot_seconds() for _ in range(options.boots)]
    print(f"boot to first job    {median(boots):.2f} s ({min(boots):.2f}-{max(boots):.2f})")
    bars = [Bar("boot to first job, s", median(boots), 0.4, is_most=True)]
    for queues in (1, 16):
        bars += wait(queues, options.seconds)
    print("\n" + "\n".join(str(bar) for bar in bars))
    return 0  # the bars do not affect the exit code


def boot_seconds() -> float:
    with bench(OFFSIDER, PROGRAMS) as place:
        ledger = place.ledger(1)
        place.produce(ledger, "fill", "1")
        with place.workers(ledger, concurrency=10) as workers:
            started_ns = time.monotonic_ns()
            workers.start()
            wait_until(ledger.has_begun, workers, seconds=BOOT_SECONDS)
        return (ledger.runs()[0].start - started_ns) / 1e9


def wait(queues: int, seconds: float) -> list[Bar]:
    with bench(serving(queues), PROGRAMS) as place:
        ledger = place.ledger(1)
        place.produce(ledger, "fill", "1")
        with place.workers(ledger, concurrency=10) as workers:
            workers.start()
            wait_until(lambda: ledger.done_from_the_start() == 1, workers, seconds=BOOT_SECONDS)
            time.sleep(SETTLE_SECONDS)
            pids = [pid for root in workers.pids for pid in tree(root)]
            before = [cpu_seconds(pid) for pid in pids]
            counted_before = place.server.counters()["commands"]
            purposes = monitored(place, seconds)
            # Without the INFO that reads the counter.
            commands = (place.server.counters()["commands"] - counted_before - 1) / seconds
            cpus = [(cpu_seconds(pid) - then) / seconds * 100 for pid, then in zip(pids, before, strict=True)]
            memories = [memory_mb(pid) for pid in pids]
    return told(queues, purposes, commands, cpus, memories)


def serving(queues: int) -> Contestant:
    """Return a worker that serves ``queues`` queues; the last one gets the job."""
    names = [*(f"queue{number}" for number in range(1, queues)), "default"]
    words = [word for name in names for word in ("-q", name)]

    def worker(programs: Path, concurrency: int) -> Sequence[str | Path]:
        return [*OFFSIDER.worker(programs, concurrency), *words]

    return replace(OFFSIDER, worker=worker)


def monitored(place: Bench, seconds: float) -> Purposes:
    """Return commands per second by purpose; a script counts as one command."""
    port = str(urlsplit(place.server.url).port)
    log = place.folder / "monitor"
    with log.open("wb") as file, subprocess.Popen(["redis-cli", "-p", port, "monitor"], stdout=file) as monitor:
        time.sleep(seconds)
        monitor.terminate()
    return counted(log.read_text(errors="replace").splitlines(), seconds)


def told(
    queues: int,
    purposes: Purposes,
    commands: float,
    cpus: Sequence[float],
    memories: Sequence[tuple[float, float]],
) -> list[Bar]:
    print(f"\n{queues} queue{'s' if queues > 1 else ''}")
    for purpose, rate in purposes.rates.items():
        print(f"  {purpose:<18} {rate:6.2f} commands/s")
    for name, count in sorted(purposes.waiting.items(), key=lambda item: -item[1])[:8]:
        print(f"    {count:>5} x {name}")
    for number, (cpu, (resident, share)) in enumerate(zip(cpus, memories, strict=True), 1):
        print(f"  process {number}          {cpu:6.2f} % CPU, {resident:.1f} MB resident, {share:.1f} MB unshared")
    return [
        Bar(f"{queues} queues: commands/s besides {HEARTBEAT} and {LEASE}", purposes.rates[WAITING], 1, is_most=True),
        Bar(f"{queues} queues: CPU of worker and parent, %", sum(cpus), 0.3, is_most=True),
        Bar(f"{queues} queues: commands/s as the server counts them", commands, 2, is_most=True),
        Bar(f"{queues} queues: resident memory of the worker, MB", max(rss for rss, _ in memories), 60, is_most=True),
        Bar(f"{queues} queues: unshared memory of both, MB", sum(pss for _, pss in memories), 40, is_most=True),
    ]


if __name__ == "__main__":
    sys.exit(main())
