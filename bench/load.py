"""Load test: push jobs, run them in one real worker process, and print rates and CPU costs.

    python3 dev.py bench load --jobs 100000 --concurrency 10

The test starts its own server on a unix socket, without persistence unless ``--appendonly``. The rate counts from the
first job's start to the last job's end; the rate of the middle 80 % is printed as well. Compare figures only within
one run, because the speed of the machine changes between runs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import redis

from bench.slots import Slots
from offsider import Client, Config
from offsider.embedded import EmbeddedServer

ROOT = Path(__file__).resolve().parents[1]
SINGLE_PUSHES = 5_000
PATIENCE_SECONDS = 600


@dataclass(frozen=True)
class Usage:
    """CPU seconds so far, and resident memory in MB."""

    cpu_seconds: float
    rss_mb: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
        return cls(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


def main() -> int:
    """Run the test and print its figures; exit code 1 if a job was lost."""
    options = parse()
    with (
        tempfile.TemporaryDirectory(prefix="offsider-bench-") as folder,
        EmbeddedServer(Path(folder) / "server", persist=options.appendonly) as server,
    ):
        return measure(options, Path(folder), server)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev.py bench load", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--job-ms", type=float, default=0, help="sleep in each job")
    parser.add_argument("--asyncio", action="store_true", help="async def jobs")
    parser.add_argument("--log-level", default="warn", choices=["info", "warn"], help="info writes the job log")
    parser.add_argument("--appendonly", action="store_true", help="server with an append-only file")
    return parser.parse_args()


def measure(options: argparse.Namespace, folder: Path, server: EmbeddedServer) -> int:
    config = Config()
    config.redis.url = server.url
    client = Client(config)
    slots = Slots(folder / "slots", options.jobs)
    name = "bench.anoop" if options.asyncio else "bench.noop"
    print(
        f"jobs {options.jobs}, concurrency {options.concurrency}, {options.job_ms:g} ms each, log {options.log_level}"
    )

    started = time.perf_counter()
    for number in range(SINGLE_PUSHES):
        client.push({"class": name, "args": [number, "two", 3], "queue": "unserved"})
    print(f"pushed one by one    {SINGLE_PUSHES / (time.perf_counter() - started):>10,.0f} /s")
    started = time.perf_counter()
    client.push_bulk({"class": name, "args": ([number, "two", 3] for number in range(options.jobs))})
    print(f"pushed by 1,000      {options.jobs / (time.perf_counter() - started):>10,.0f} /s")

    redis_before, scripts_before = Usage.of(server.pid or 0), scripts_run(server.url)
    worker = start_worker(options, folder, server.url)
    try:
        idle = wait_for_first(slots, worker)
        wait_for_all(slots, options.jobs)
        after, redis_after = Usage.of(worker.pid), Usage.of(server.pid or 0)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(timeout=60)
    print(f"jobs a script        {options.jobs / max(1, scripts_run(server.url) - scripts_before):>10.1f}")
    return report(options, slots, idle, after, redis_after.cpu_seconds - redis_before.cpu_seconds)


def scripts_run(url: str) -> int:
    """Return the number of scripts that the server has run so far."""
    untyped: Any = redis.Redis
    with untyped.from_url(url) as client:
        return int(client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))


def start_worker(
    options: argparse.Namespace,
    folder: Path,
    url: str,
    further: Mapping[str, str] = MappingProxyType({}),
    app: str = "bench.load_app",
    *,
    python: str = sys.executable,
) -> subprocess.Popen[bytes]:
    environ = os.environ | {
        "OFFSIDER_BENCH_SLOTS": str(folder / "slots"),
        "OFFSIDER_BENCH_JOB_MS": str(options.job_ms),
        "OFFSIDER_REDIS_URL": url,
        "OFFSIDER_LOG_LEVEL": options.log_level,
        "PYTHONPATH": str(ROOT),
        **further,
    }
    command = [
        python,
        "-m",
        "offsider",
        "worker",
        "-r",
        app,
        "-c",
        str(options.concurrency),
        "-e",
        "production",
    ]
    with (folder / "worker.log").open("wb") as log:
        return subprocess.Popen(command, env=environ, cwd=folder, stdout=log, stderr=subprocess.STDOUT)


def wait_for_first(slots: Slots, worker: subprocess.Popen[bytes]) -> Usage:
    """Wait for the first job, and return the worker's usage then, to exclude the cost of its start."""
    while not any(start for start, _, _ in slots.read()[:1000]):
        if worker.poll() is not None:
            sys.exit(f"the worker ended with code {worker.returncode}")
        time.sleep(0.01)
    return Usage.of(worker.pid)


def wait_for_all(slots: Slots, jobs: int) -> None:
    """Wait until this number of jobs has ended, at most PATIENCE_SECONDS."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while slots.finished() < jobs and time.monotonic() < deadline:
        time.sleep(0.2)


def middle_rate(runs: Sequence[tuple[int, int, int]]) -> float:
    """Return jobs per second between the ends of the first and the last tenth."""
    ends = sorted(end for _, end, _ in runs if end)
    low, high = len(ends) // 10, len(ends) * 9 // 10
    return (high - low) / ((ends[high] - ends[low]) / 1e9)


def report(options: argparse.Namespace, slots: Slots, idle: Usage, after: Usage, redis_cpu_seconds: float) -> int:
    runs = slots.read()
    ends = sorted(end for _, end, _ in runs if end)
    lost = options.jobs - len(ends)
    doubled = sum(1 for _, _, starts in runs if starts > 1)
    if len(ends) < 10:
        sys.exit(f"only {len(ends)} of {options.jobs} jobs ran")
    first = min(start for start, _, _ in runs if start)
    seconds = (ends[-1] - first) / 1e9
    middle = middle_rate(runs)
    worker_us = (after.cpu_seconds - idle.cpu_seconds) / options.jobs * 1e6
    print(f"ran                  {len(ends) / seconds:>10,.0f} /s   (middle 80 %: {middle:,.0f} /s) in {seconds:.2f} s")
    print(f"worker CPU           {worker_us:>10.1f} us a job")
    print(f"server CPU           {redis_cpu_seconds / options.jobs * 1e6:>10.1f} us a job")
    print(f"worker memory        {idle.rss_mb:>10.1f} MB at first, {after.rss_mb:.1f} MB at the end")
    print(f"lost {lost}, ran twice {doubled}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
