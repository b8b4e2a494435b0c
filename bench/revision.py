"""Compares the working tree with a revision: pushes, drains, pick-up and memory of both, in turns in one run.

    python3 dev.py bench revision HEAD~50 --rounds 12

1. The code of the revision is exported into a temporary folder. Jobs, slots and server program are the same for both.
2. In each round each of the two, on its own server: pushes jobs one by one (`enqueue`, then `aenqueue`) and in bulk in
   a process; runs no-op jobs, no-op jobs with the job log (INFO), and jobs of 10 ms in a worker process each; and
   starts single jobs in an idle worker. The order of the two alternates between rounds.
3. The ratio is the median of the ratios within each round, because other load on the machine disturbs both. It is above
   1 if the working tree is better.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import load
from bench.load import ROOT
from bench.slots import Slots
from offsider import Client, Config
from offsider.embedded import EmbeddedServer

SINGLE_PUSHES = 5_000
LOGGED_SHARE = 0.3
SHORT_JOBS, SHORT_MS, SHORT_THREADS = 5_000, 10.0, 50
PICK_UPS, GAP_SECONDS = 200, 0.01
#: The figures of one round, by their names. More is better for `RATES`; less is better for the others.
Figures = Mapping[str, float]
NO_OPS, LOGGED = "no-ops, jobs/s", "no-ops with INFO log, jobs/s"
SHORT = f"{SHORT_MS:g} ms at concurrency {SHORT_THREADS}, jobs/s"
RATES = (NO_OPS, LOGGED, SHORT)
BAR = 0.97


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
                shown = "  ".join(f"{what} {value:,.1f}" for what, value in runs[kind][-1].items())
                print(f"round {number + 1} {kind:<7} {shown}", flush=True)
    print(table(runs["before"], runs["now"]))
    return 0


def table(before: Sequence[Figures], now: Sequence[Figures]) -> str:
    """Return the medians of both, and the medians of their ratios within a round; ``<`` marks one below `BAR`."""
    lines = [f"\n{'median of the rounds':<40}{'before':>12}{'now':>12}{'ratio':>10}"]
    for what in before[0]:
        pairs = [(first[what], second[what]) for first, second in zip(before, now, strict=True)]
        ratio = statistics.median(new / old if what in RATES else old / new for old, new in pairs)
        old, new = (statistics.median(values) for values in zip(*pairs, strict=True))
        lines.append(f"{what:<40}{old:>12,.1f}{new:>12,.1f}{ratio:>10.3f}{' <' if ratio < BAR else ''}")
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev.py bench revision", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("revision", help="git revision to compare with")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--push", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def export(revision: str, folder: Path) -> Path:
    """Export the code of a revision into a folder; return the folder of its packages."""
    archive = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder / "src"


def measure(options: argparse.Namespace, source: Path) -> Figures:
    """Run one round with the code in ``source``."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="offsider-bench-") as name, EmbeddedServer(Path(name) / "s") as server:
        ground = Ground(Path(name), server.url, {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"})
        slots = Slots(ground.folder / "slots", options.jobs)
        figures |= pushed(options, ground)
        with ground.worker() as worker:
            idle = load.wait_for_first(slots, worker)
            load.wait_for_all(slots, options.jobs)
            after = load.Usage.of(worker.pid)
        figures[NO_OPS] = load.middle_rate(slots.read())
        figures["worker CPU per no-op, us"] = (after.cpu_seconds - idle.cpu_seconds) / options.jobs * 1e6
        figures["worker memory after no-ops, MB"] = after.rss_mb
        figures[LOGGED] = ground.drain(int(options.jobs * LOGGED_SHARE), log_level="info")
        figures[SHORT] = ground.drain(SHORT_JOBS, concurrency=SHORT_THREADS, job_ms=SHORT_MS)
        figures["pick-up p50, us"], figures["idle worker, MB"] = picked_up(ground)
    return figures


@dataclass(frozen=True)
class Ground:
    """Where one round runs: a folder for its files, the URL of its server, and the environment that names the code."""

    folder: Path
    url: str
    environ: Mapping[str, str]

    @contextmanager
    def worker(self, **plan: float | str) -> Generator[subprocess.Popen[bytes]]:
        """Run a worker; ``plan`` has options of `bench.load`."""
        usual = {"concurrency": 10, "job_ms": 0.0, "log_level": "warn"}
        worker = load.start_worker(argparse.Namespace(**usual | plan), self.folder, self.url, self.environ)
        try:
            yield worker
        finally:
            worker.terminate()
            worker.wait(timeout=60)

    def client(self) -> Client:
        """Return a client of the working tree: the same one for both."""
        config = Config()
        config.redis.url = self.url
        return Client(config)

    def drain(self, jobs: int, **plan: float | str) -> float:
        """Run jobs that are stored before the worker starts; return jobs per second in the middle 80 %."""
        slots = Slots(self.folder / "slots", jobs)
        self.client().push_bulk({"class": "bench.noop", "args": ([number] for number in range(jobs))})
        with self.worker(**plan) as worker:
            load.wait_for_first(slots, worker)
            load.wait_for_all(slots, jobs)
        return load.middle_rate(slots.read())


def picked_up(ground: Ground) -> tuple[float, float]:
    """Push single jobs to an idle worker; return the median microseconds from push to start, and its memory in MB."""
    slots, client = Slots(ground.folder / "slots", PICK_UPS + 1), ground.client()
    with ground.worker() as worker:
        client.push({"class": "bench.noop", "args": [PICK_UPS]})
        load.wait_for_first(slots, worker)
        time.sleep(1)
        memory = load.Usage.of(worker.pid).rss_mb
        pushed_at: list[int] = []
        for number in range(PICK_UPS):
            pushed_at.append(time.monotonic_ns())
            client.push({"class": "bench.noop", "args": [number]})
            time.sleep(GAP_SECONDS)
        load.wait_for_all(slots, PICK_UPS + 1)
    starts = [start for start, _, _ in slots.read()]
    late = [start - at for start, at in zip(starts, pushed_at, strict=False)]
    return statistics.median(late) / 1000, memory


def pushed(options: argparse.Namespace, ground: Ground) -> Figures:
    command = [sys.executable, "-m", "bench.revision", options.revision, "--push", "--jobs", str(options.jobs)]
    further = {"OFFSIDER_BENCH_SLOTS": str(ground.folder / "slots"), "OFFSIDER_REDIS_URL": ground.url, **ground.environ}
    said = subprocess.run(
        command, env=os.environ | further, cwd=ground.folder, check=True, capture_output=True, text=True
    )
    return {str(what): float(us) for what, us in json.loads(said.stdout).items()}


def push(options: argparse.Namespace) -> int:
    """Push jobs in a process with the measured code; print microseconds per job of each way to push."""
    from bench.load_app import noop  # here, because its import maps the slots file of a round

    unserved = noop.using(queue="unserved")

    def one_by_one() -> None:
        for number in range(SINGLE_PUSHES):
            unserved.enqueue(number, "two", 3)

    async def awaited() -> float:
        await unserved.aenqueue(0, "two", 3)
        started = time.perf_counter()
        for number in range(SINGLE_PUSHES):
            await unserved.aenqueue(number, "two", 3)
        return time.perf_counter() - started

    unserved.enqueue(0, "two", 3)
    one = seconds_of(one_by_one)
    asynchronous = asyncio.run(awaited())
    bulk = seconds_of(lambda: noop.enqueue_many((number, "two", 3) for number in range(options.jobs)))
    figures = {
        "pushed one by one, us": one / SINGLE_PUSHES * 1e6,
        "pushed with aenqueue, us": asynchronous / SINGLE_PUSHES * 1e6,
        "pushed in bulk, us": bulk / options.jobs * 1e6,
    }
    print(json.dumps(figures))
    return 0


def seconds_of(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
