"""The cost of batches: no-op jobs without the extension, with it, and as members of one batch; pushes and runs.

    python3 dev.py bench batches --jobs 100000 --rounds 5

Each round pushes the jobs of each kind in bulk and then runs a worker, in a different order; the figures are medians.
The ratio compares push and run with those of the first kind: the aim is 1.5 at most. The last column is the worker's
largest memory, which should not depend on the number of jobs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from bench import load
from bench.slots import Slots
from offsider import Client, Config
from offsider.embedded import EmbeddedServer
from offsider.ext.batches import Batch, Batches

PLAIN, INSTALLED, MEMBERS = "not installed", "installed, no batch", "in a batch"
KINDS = (PLAIN, INSTALLED, MEMBERS)


def main() -> int:
    """Print microseconds per push and per run for each kind, and their sum in relation to the first kind."""
    parser = argparse.ArgumentParser(prog="dev.py bench batches", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    runs: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in KINDS}
    for number in range(options.rounds):
        first = number % len(KINDS)
        for kind in (*KINDS[first:], *KINDS[:first]):
            runs[kind].append(measure(options, kind))
    totals: dict[str, float] = {}
    for kind, figures in runs.items():
        push_us, run_us, mib = (statistics.median(values) for values in zip(*figures, strict=True))
        totals[kind] = push_us + run_us
        ratio = totals[kind] / totals[PLAIN]
        print(f"{kind:<22}{push_us:>8.1f} us a push{run_us:>10.1f} us a run{ratio:>8.2f} x{mib:>8.1f} MiB")
    return 0


def measure(options: argparse.Namespace, kind: str) -> tuple[float, float, float]:
    """Return microseconds per push, and per run in the middle 80 %, and the worker's largest memory in MiB."""
    with tempfile.TemporaryDirectory(prefix="offsider-bench-") as folder, EmbeddedServer(Path(folder) / "s") as server:
        config = Config()
        config.redis.url = server.url
        if kind != PLAIN:
            config.use(Batches())
        slots = Slots(Path(folder) / "slots", options.jobs)
        started = time.perf_counter()
        with Batch(config=config, autoflush=10_000) if kind == MEMBERS else nullcontext():
            Client(config).push_bulk({"class": "bench.noop", "args": ([n, "two", 3] for n in range(options.jobs))})
        push_us = (time.perf_counter() - started) / options.jobs * 1e6
        plain = argparse.Namespace(**{**vars(options), "job_ms": 0, "log_level": "warn"})
        environ = {"OFFSIDER_BENCH_BATCHES": "" if kind == PLAIN else "1"}
        worker = load.start_worker(plain, Path(folder), server.url, environ, "bench.batches_app")
        try:
            load.wait_for_all(slots, options.jobs)
            mib = peak_mib(worker.pid)
        finally:
            worker.terminate()
            worker.wait(timeout=60)
        return push_us, 1e6 / load.middle_rate(slots.read()), mib


def peak_mib(pid: int) -> float:
    """Return the largest resident memory that a process had, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main())
