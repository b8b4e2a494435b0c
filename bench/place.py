"""The environment of one measurement: a server, a folder and worker processes.

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
from bench.slots import Slots, rate_of
from offsider import Client, Config
from offsider.embedded import EmbeddedServer
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 600


@dataclass(frozen=True)
class Usage:
    """CPU time and memory of a process and its descendants.

    Memory is the resident memory of the largest process plus the proportional memory (PSS) of the others.
    """

    cpu_seconds: float
    rss_mb: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        pids = [*tree(pid)]
        largest, *others = sorted(map(memory_mb, pids), reverse=True)
        return cls(sum(map(cpu_seconds, pids)), largest[0] + sum(share for _, share in others))


@dataclass(frozen=True)
class Ran:
    """The result of a drain by one worker.

    Attributes:
        rate: jobs per second between the ends of the first and the last tenth.
        cpu_us: CPU of the worker per job, without its boot.
        rss_mb: memory of the worker at the end.
    """

    rate: float
    cpu_us: float
    rss_mb: float


class Place:
    """A server and a folder, removed afterwards.

    Args:
        persist: the server writes an append-only file.
        environ: additional environment variables of all processes.
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

    def client(self) -> Client:
        config = Config()
        config.redis.url = self.url
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
        app: str = "bench.load_app",
        **environ: str,
    ) -> Generator[subprocess.Popen[bytes]]:
        """Run a worker with the jobs of a module; keywords are additional environment variables."""
        further = {"OFFSIDER_BENCH_JOB_MS": str(job_ms), "OFFSIDER_LOG_LEVEL": log_level, **environ}
        command = [sys.executable, "-m", "offsider", "worker", "-r", app, "-c", str(concurrency)]
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
            wait_for(lambda: slots.done_from_the_start() >= jobs, PATIENCE_SECONDS)
            last = Usage.of(worker.pid)
        cpu_us = (last.cpu_seconds - first.cpu_seconds) / jobs * 1e6
        return Ran(rate_of(slots.runs()).middle, cpu_us, last.rss_mb)


def wait_for_first(slots: Slots, worker: subprocess.Popen[bytes]) -> Usage:
    """Wait for the first job, and return the worker's usage then, to exclude the cost of its start."""

    def has_begun() -> bool:
        if worker.poll() is not None:
            sys.exit(f"the worker ended with code {worker.returncode}")
        return slots.has_begun(among=1000)

    wait_for(has_begun, PATIENCE_SECONDS)
    return Usage.of(worker.pid)


def microseconds(run: Callable[[], object], jobs: int) -> float:
    """Return the microseconds per job of a call."""
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) / jobs * 1e6
