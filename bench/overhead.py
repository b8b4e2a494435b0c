"""The cost of counting: no-op jobs with metrics, attempts and error groups on and off, in turns.

    python3 dev.py bench overhead --jobs 100000 --rounds 5

Each round runs a worker of each kind, in a different order; the ratio is the median over the rounds. ``--source``
names another checkout whose ``src`` is a third kind, for example the commit before a change.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import load
from bench.slots import Slots
from offsider import Client, Config
from offsider.embedded import EmbeddedServer


@dataclass(frozen=True)
class Figures:
    """One run: jobs per second in the middle 80 %, and the worker's CPU microseconds per job."""

    rate: float
    worker_us: float


def main() -> int:
    """Print the figures of each kind, and "on" in percent of "off"."""
    parser = argparse.ArgumentParser(prog="dev.py bench overhead", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--source", type=Path, help="another checkout to compare with")
    options = parser.parse_args()
    kinds: dict[str, Mapping[str, str]] = {
        "on": {"OFFSIDER_WORKER_METRICS": "true"},
        "off": {"OFFSIDER_WORKER_METRICS": "false"},
    }
    if options.source:
        kinds["source"] = {"PYTHONPATH": f"{options.source / 'src'}{os.pathsep}{options.source}"}
    runs: dict[str, list[Figures]] = {kind: [] for kind in kinds}
    for number in range(options.rounds):
        first = number % len(kinds)
        for kind in [*kinds][first:] + [*kinds][:first]:
            runs[kind].append(measure(options, kinds[kind]))
            print(f"round {number + 1} {kind:<7}{runs[kind][-1].rate:>10,.0f} /s {runs[kind][-1].worker_us:>7.2f} us")
    for kind, figures in runs.items():
        rate = statistics.median(run.rate for run in figures)
        cpu = statistics.median(run.worker_us for run in figures)
        print(f"{kind:<8} median {rate:>10,.0f} /s, worker CPU {cpu:.2f} us a job")
    for kind in list(kinds)[1:]:
        pairs = list(zip(runs["on"], runs[kind], strict=True))
        rate = statistics.median(on.rate / other.rate for on, other in pairs)
        cpu = statistics.median(on.worker_us - other.worker_us for on, other in pairs)
        print(f"on reaches {rate:.1%} of {kind}, and takes {cpu:+.2f} us of CPU a job")
    return 0


def measure(options: argparse.Namespace, environ: Mapping[str, str]) -> Figures:
    with tempfile.TemporaryDirectory(prefix="offsider-bench-") as folder, EmbeddedServer(Path(folder) / "s") as server:
        config = Config()
        config.redis.url = server.url
        slots = Slots(Path(folder) / "slots", options.jobs)
        jobs = ([number, "two", 3] for number in range(options.jobs))
        Client(config).push_bulk({"class": "bench.noop", "args": jobs})
        plain = argparse.Namespace(**{**vars(options), "job_ms": 0, "log_level": "warn"})
        worker = load.start_worker(plain, Path(folder), server.url, environ)
        try:
            idle = load.wait_for_first(slots, worker)
            load.wait_for_all(slots, options.jobs)
            after = load.Usage.of(worker.pid)
        finally:
            worker.terminate()
            worker.wait(timeout=60)
        return Figures(load.middle_rate(slots.read()), (after.cpu_seconds - idle.cpu_seconds) / options.jobs * 1e6)


if __name__ == "__main__":
    sys.exit(main())
