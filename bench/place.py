"""A server, a folder and worker processes of one measurement.

with Place() as place:
    place.push_bulk(place.client(), 10_000)
    ran = place.drain(10_000, concurrency=10)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import redis

from bench.compare.machine import cpu_seconds, memory_mb, tree
from bench.slots import Slots
from offsider import Client, Config
from offsider.embedded import EmbeddedServer

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 600


@dataclass(frozen=True)
class Usage:
    """CPU seconds so far, and memory in MB, now and at most so far, of a process and its descendants.

    Resident memory of the largest process, and proportional memory (PSS) of the others.
    """

    cpu_seconds: float
    rss_mb: float
    peak_mb: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        pids = [*tree(pid)]
        statuses = [Path(f"/proc/{each}/status").read_text("utf-8") for each in pids]
        sizes = [
            [int(status.partition(name)[2].split()[0]) / 1024 for name in ("VmRSS:", "VmHWM:")] for status in statuses
        ]
        largest = max(sizes)
        others = sum(memory_mb(each)[1] for each in pids) - max(memory_mb(each)[1] for each in pids)
        return cls(sum(map(cpu_seconds, pids)), largest[0] + others, largest[1] + others)


@dataclass(frozen=True)
class Ran:
    """The jobs of one worker.

    Attributes:
        per_second: from the first start to the last end.
        middle: jobs per second between the ends of the first and the last tenth.
        cpu_us: CPU of the worker per job, without its boot.
        first: usage of the worker at its first job.
        last: its usage at the end.
    """

    per_second: float
    middle: float
    cpu_us: float
    lost: int
    doubled: int
    first: Usage
    last: Usage


class Place:
    """The server and the folder.

    Args:
        persist: the server writes an append-only file.
        environ: of all processes, in addition.
    """

    def __init__(self, *, persist: bool = True, environ: Mapping[str, str] | None = None) -> None:
        self._persist = persist
        self._environ = environ or {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="offsider-bench-")))
        server = self._stack.enter_context(EmbeddedServer(self.folder / "server", persist=self._persist))
        self.url, self.pid = server.url, server.pid or 0
        untyped: Any = redis.Redis
        self.raw: Any = self._stack.enter_context(untyped.from_url(server.url))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def environ(self) -> dict[str, str]:
        """The environment of processes that load the jobs of `bench.load_app`."""
        slots = str(self.folder / "slots")
        return os.environ | {
            "OFFSIDER_REDIS_URL": self.url,
            "OFFSIDER_BENCH_SLOTS": slots,
            "PYTHONPATH": str(ROOT),
            **self._environ,
        }

    def client(self, *extensions: Any) -> Client:
        config = Config()
        config.redis.url = self.url
        for extension in extensions:
            config.use(extension)
        client = Client(config)
        self._stack.callback(client.close)
        return client

    def push_bulk(self, client: Client, jobs: int, name: str = "noop", *arguments: object, **options: Any) -> None:
        args = ([number, *(arguments or ("two", 3))] for number in range(jobs))
        client.push_bulk({"class": f"bench.{name}", "args": args, **options})

    @contextmanager
    def worker(
        self,
        *words: str,
        concurrency: int = 10,
        job_ms: float = 0.0,
        log_level: str = "warn",
        python: str = sys.executable,
        extension: str = "",
    ) -> Generator[subprocess.Popen[bytes]]:
        """Run a worker with the jobs of `bench.load_app` and one of its extensions."""
        further = {
            "OFFSIDER_BENCH_JOB_MS": str(job_ms),
            "OFFSIDER_BENCH_EXTENSION": extension,
            "OFFSIDER_LOG_LEVEL": log_level,
        }
        command = [python, "-m", "offsider", "worker", "-r", "bench.load_app", "-c", str(concurrency)]
        with (self.folder / "worker.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "-e", "production", *words],
                env=self.environ | further,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=60)

    def drain(self, jobs: int, **plan: Any) -> Ran:
        """Run the stored jobs in one worker; ``plan`` has arguments of `worker`."""
        slots = Slots(self.folder / "slots", jobs)
        with self.worker(**plan) as worker:
            first = wait_for_first(slots, worker)
            wait_until(lambda: slots.finished() >= jobs, 0.2)
            last = Usage.of(worker.pid)
        runs = slots.read()
        ends = sorted(end for _, end, _ in runs if end)
        low, high = len(ends) // 10, len(ends) * 9 // 10
        seconds = (ends[-1] - min(start for start, _, _ in runs if start)) / 1e9
        return Ran(
            per_second=len(ends) / seconds,
            middle=(high - low) / ((ends[high] - ends[low]) / 1e9),
            cpu_us=(last.cpu_seconds - first.cpu_seconds) / jobs * 1e6,
            lost=jobs - len(ends),
            doubled=sum(starts > 1 for _, _, starts in runs),
            first=first,
            last=last,
        )


def wait_for_first(slots: Slots, worker: subprocess.Popen[bytes]) -> Usage:
    """Wait for the first job, and return the worker's usage then, to exclude the cost of its start."""

    def has_begun() -> bool:
        if worker.poll() is not None:
            sys.exit(f"the worker ended with code {worker.returncode}")
        return any(start for start, _, _ in slots.read()[:1000])

    wait_until(has_begun, 0.01)
    return Usage.of(worker.pid)


def wait_until(condition: Callable[[], object], poll_seconds: float = 0.005) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            sys.exit("the worker makes no progress")
        time.sleep(poll_seconds)


def microseconds(run: Callable[[], object], jobs: int) -> float:
    """Return the microseconds per job of a call."""
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) / jobs * 1e6
