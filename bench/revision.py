"""Compares the working tree with a revision: pushes and no-op jobs of both, in turns in one run.

    python3 dev.py bench revision HEAD~50 --jobs 100000 --rounds 7

1. The code of the revision is exported into a temporary folder. Jobs, slots and server program are the same for both.
2. In each round each of the two pushes declared jobs, one by one and in bulk, in its own process, and then runs them in
   a worker process, on its own server. The order alternates between rounds.
3. The ratio is the median of the ratios within each round, because other load on the machine disturbs both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from bench import load
from bench.load import ROOT
from bench.slots import Slots
from offsider.embedded import EmbeddedServer

SINGLE_PUSHES = 5_000


@dataclass(frozen=True)
class Figures:
    """One round with one of the two.

    Attributes:
        one_us: microseconds per single push.
        bulk_us: microseconds per job of a bulk push.
        rate: jobs per second in the middle 80 %.
        worker_us: CPU microseconds of the worker per job.
    """

    one_us: float
    bulk_us: float
    rate: float
    worker_us: float


SHOWN: Mapping[str, Callable[[Figures], float]] = {
    "pushed one by one, us": lambda figures: figures.one_us,
    "pushed in bulk, us": lambda figures: figures.bulk_us,
    "ran, jobs/s": lambda figures: figures.rate,
    "worker CPU a job, us": lambda figures: figures.worker_us,
}


def main() -> int:
    """Print the figures of both, and their ratios."""
    options = parse()
    if options.push:
        return push(options)
    with tempfile.TemporaryDirectory(prefix="offsider-bench-") as name:
        sources = {"before": export(options.revision, Path(name)), "now": ROOT / "src"}
        runs: dict[str, list[Figures]] = {kind: [] for kind in sources}
        for number in range(options.rounds):
            for kind in [*sources][:: 1 if number % 2 else -1]:
                runs[kind].append(measure(options, sources[kind]))
                shown = "  ".join(f"{what} {read(runs[kind][-1]):,.1f}" for what, read in SHOWN.items())
                print(f"round {number + 1} {kind:<7} {shown}", flush=True)
    print(f"\n{'median of the rounds':<24}{'before':>12}{'now':>12}{'now / before':>14}")
    for what, read in SHOWN.items():
        before, now = ([read(figures) for figures in runs[kind]] for kind in ("before", "now"))
        ratio = statistics.median(second / first for first, second in zip(before, now, strict=True))
        print(f"{what:<24}{statistics.median(before):>12,.1f}{statistics.median(now):>12,.1f}{ratio:>14.3f}")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev.py bench revision", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("revision", help="git revision to compare with")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--push", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def export(revision: str, folder: Path) -> Path:
    """Export the code of a revision into a folder; return the folder of its packages."""
    archive = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


def measure(options: argparse.Namespace, source: Path) -> Figures:
    """Run one round with the code in ``source``."""
    with tempfile.TemporaryDirectory(prefix="offsider-bench-") as name, EmbeddedServer(Path(name) / "s") as server:
        folder = Path(name)
        slots = Slots(folder / "slots", options.jobs)
        environ = {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
        one_us, bulk_us = pushed(options, environ, folder, server.url)
        plain = argparse.Namespace(**{**vars(options), "job_ms": 0, "log_level": "warn"})
        worker = load.start_worker(plain, folder, server.url, environ)
        try:
            idle = load.wait_for_first(slots, worker)
            load.wait_for_all(slots, options.jobs)
            after = load.Usage.of(worker.pid)
        finally:
            worker.terminate()
            worker.wait(timeout=60)
        worker_us = (after.cpu_seconds - idle.cpu_seconds) / options.jobs * 1e6
        return Figures(one_us, bulk_us, load.middle_rate(slots.read()), worker_us)


def pushed(options: argparse.Namespace, environ: Mapping[str, str], folder: Path, url: str) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.revision", options.revision, "--push", "--jobs", str(options.jobs)]
    further = {"OFFSIDER_BENCH_SLOTS": str(folder / "slots"), "OFFSIDER_REDIS_URL": url, **environ}
    said = subprocess.run(command, env=os.environ | further, cwd=folder, check=True, capture_output=True, text=True)
    one_us, bulk_us = map(float, said.stdout.split())
    return one_us, bulk_us


def push(options: argparse.Namespace) -> int:
    """Push jobs in a process with the measured code; print microseconds per job, one by one and in bulk."""
    from bench.load_app import noop  # here, because its import maps the slots file of a round

    unserved = noop.using(queue="unserved")
    unserved.enqueue(0, "two", 3)
    started = time.perf_counter()
    for number in range(SINGLE_PUSHES):
        unserved.enqueue(number, "two", 3)
    one = time.perf_counter() - started
    started = time.perf_counter()
    noop.enqueue_many((number, "two", 3) for number in range(options.jobs))
    bulk = time.perf_counter() - started
    print(one / SINGLE_PUSHES * 1e6, bulk / options.jobs * 1e6)
    return 0


if __name__ == "__main__":
    sys.exit(main())
