"""The cost of concurrency limits: no-op jobs without the extension, without a limit, below a limit, and at a limit.

    python3 dev.py bench limits --jobs 20000 --rounds 5

Each round runs a worker of each kind, in a different order; the figures are medians. At the limit of 3 the other
threads are idle, so that figure measures how fast a slot passes from job to job.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from bench import load
from bench.slots import Slots
from offsider import Client, Config
from offsider.embedded import EmbeddedServer

KINDS = {"not installed": "", "installed, no limit": "0", "never at the limit": "1000", "at a limit of 3": "3"}


def main() -> int:
    """Print jobs per second and the worker's CPU microseconds per job for each kind."""
    parser = argparse.ArgumentParser(prog="dev.py bench limits", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    runs: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for number in range(options.rounds):
        first = number % len(KINDS)
        for kind in [*KINDS][first:] + [*KINDS][:first]:
            runs[kind].append(measure(options, KINDS[kind]))
    for kind, figures in runs.items():
        rate, cpu_us = (statistics.median(values) for values in zip(*figures, strict=True))
        print(f"{kind:<22}{rate:>10,.0f} jobs/s{1e6 / rate:>10.1f} us a job{cpu_us:>10.1f} us of CPU in the worker")
    return 0


def measure(options: argparse.Namespace, limit: str) -> tuple[float, float]:
    """Return jobs per second, and the worker's CPU microseconds per job."""
    with tempfile.TemporaryDirectory(prefix="offsider-bench-") as folder, EmbeddedServer(Path(folder) / "s") as server:
        config = Config()
        config.redis.url = server.url
        slots = Slots(Path(folder) / "slots", options.jobs)
        Client(config).push_bulk({"class": "bench.noop", "args": ([n, "two", 3] for n in range(options.jobs))})
        plain = argparse.Namespace(**{**vars(options), "job_ms": 0, "log_level": "warn"})
        environ = {"OFFSIDER_BENCH_LIMIT": limit}
        worker = load.start_worker(plain, Path(folder), server.url, environ, "bench.limits_app")
        try:
            idle = load.wait_for_first(slots, worker)
            load.wait_for_all(slots, options.jobs)
            after = load.Usage.of(worker.pid)
        finally:
            worker.terminate()
            worker.wait(timeout=60)
        return load.middle_rate(slots.read()), (after.cpu_seconds - idle.cpu_seconds) / options.jobs * 1e6


if __name__ == "__main__":
    sys.exit(main())
