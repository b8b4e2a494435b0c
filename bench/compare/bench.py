"""The environment of one run: folder, server, slots, producer, and workers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.compare.delay import DelayProxy
from bench.compare.machine import CpuTimes, read_cpu_times, tree
from bench.compare.rivals import APPS, Contestant
from bench.servers import Server
from bench.slots import Slots
from bench.stall import Stall
from tests.process.workers import Worker

BOOT_SECONDS = 60.0
STALL_SECONDS = 15.0
FILL_SECONDS = 300.0


class Broken(Exception):
    """A contestant failed during a run; the message contains its output."""


@dataclass(frozen=True)
class Bench:
    """The environment of one run.

    Attributes:
        programs: the folder of the contestant's programs.
        folder: the run's files.
        proxy: between workers and server, if any; a producer uses it only in a test of pushes.
    """

    contestant: Contestant
    programs: Path
    folder: Path
    server: Server
    proxy: DelayProxy | None = None

    @property
    def reached(self) -> str:
        """The URL by which workers reach the server."""
        return self.server.url if self.proxy is None else self.proxy.url

    def make_slots(self, count: int) -> Slots:
        return Slots(self.folder / "slots", count)

    def workers(self, slots: Slots, *, concurrency: int, job_ms: float = 0, log: str = "warn") -> Workers:
        processes = concurrency if not self.contestant.runs_one or job_ms else 1
        return Workers(self, slots, concurrency=processes, job_ms=job_ms, log=log)

    def cpu_times(self, workers: Workers) -> CpuTimes:
        """Return the CPU time that workers, server and proxy have used so far."""
        return read_cpu_times(workers.pids, self.server.pid, proxy=self.proxy.pid if self.proxy is not None else 0)

    def produce(self, slots: Slots, *words: str, url: str | None = None) -> Mapping[str, float]:
        """Run the producer and return its figures; ``url`` if it does not connect directly. Raises Broken."""
        command = [str(part) for part in self.contestant.drive(self.programs)]
        environ = self.contestant.surroundings(url or self.server.url, slots.path)
        ended = subprocess.run(
            [*command, *words],
            env=environ,
            cwd=APPS,
            capture_output=True,
            text=True,
            timeout=FILL_SECONDS,
            check=False,
        )
        if ended.returncode:
            raise Broken(f"its producer failed: {ended.stderr[-1500:]}")
        figures: Mapping[str, float] = json.loads(ended.stdout.splitlines()[-1])
        return figures


class Workers:
    """The workers of one contestant on one server. Leaving the block kills them with all their children.

    Args:
        bench: the contestant, its programs and the server.
        slots: records the runs of the jobs.
        concurrency: number of concurrent jobs of each process.
        job_ms: how long a job sleeps.
        log: ``"warn"``, or ``"info"`` for the job log at its default level, written to a file.
    """

    def __init__(self, bench: Bench, slots: Slots, *, concurrency: int, job_ms: float, log: str) -> None:
        self._bench = bench
        self._fields = {"programs": bench.programs, "concurrency": concurrency, "url": bench.reached}
        self._environ = bench.contestant.surroundings(bench.reached, slots.path) | {
            "BENCH_CONCURRENCY": str(concurrency),
            "BENCH_JOB_MS": str(job_ms),
            "BENCH_LOG": log,
            "OFFSIDER_LOG_LEVEL": log,
        }
        self._workers: list[Worker] = []

    def start_all(self, processes: int) -> None:
        """Start this number of processes, under a parent process if there is one."""
        swarm = self._bench.contestant.swarm
        if swarm and processes > 1:
            self._launch(swarm, processes=processes)
        else:
            for _ in range(processes):
                self.start()

    def start(self) -> None:
        """Start one more process."""
        self._launch(self._bench.contestant.worker)

    def _launch(self, command: str, **fields: object) -> None:
        words = [word.format(**self._fields, **fields) for word in command.split()]
        file = self._bench.folder / f"worker-{len(self._workers)}.log"
        self._workers.append(Worker(words, file, self._environ, APPS))

    @property
    def pids(self) -> list[int]:
        return [worker.parent for worker in self._workers]

    @property
    def is_dead(self) -> bool:
        return not all(worker.runs for worker in self._workers)

    def log(self, lines: int = 15) -> str:
        """Return the end of their output."""
        return "\n".join([line for worker in self._workers for line in worker.output.splitlines()][-lines:])

    def kill(self) -> None:
        """Send SIGKILL to all of them at once, as if their machine died."""
        every = [pid for root in self.pids for pid in tree(root)]
        for pid in every:  # parents first, since they restart workers; some have a session of their own
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for worker in self._workers:
            worker.close()
        deadline = time.monotonic() + 5
        while any(Path(f"/proc/{pid}/exe").exists() for pid in every) and time.monotonic() < deadline:
            time.sleep(0.005)
        self._workers = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()


def redis_server() -> Path:
    """Return the server program that all contestants use."""
    return Path(
        shutil.which("redis-server") or sys.exit("bench compare needs redis-server: apt-get install redis-server")
    )


@contextmanager
def bench(contestant: Contestant, programs: Path, *, rtt_ms: float | None = None) -> Generator[Bench]:
    """Create the environment of one run; with ``rtt_ms``, workers use a proxy that adds this round trip."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)))
        server = Server(folder / "server", persist=False, binary=redis_server())
        stack.callback(server.close)
        proxy = None if rtt_ms is None else stack.enter_context(closing(DelayProxy(server.url, rtt_ms=rtt_ms)))
        yield Bench(contestant, programs, folder, server, proxy)


def wait_until(condition: Callable[[], bool], workers: Workers, *, seconds: float, poll_seconds: float = 0.01) -> None:
    """Wait for the condition. Raises Broken if the workers die, or after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if workers.is_dead:
            raise Broken(f"its worker ended: {workers.log()}")
        if time.monotonic() > deadline:
            raise Broken(f"nothing happened for {seconds:g} s: {workers.log()}")
        time.sleep(poll_seconds)


def wait_for_all(slots: Slots, workers: Workers) -> None:
    """Wait until every job has ended, or until there is no progress; missing jobs then count as lost."""
    stall = Stall(STALL_SECONDS)
    while (done := slots.done_from_the_start()) < slots.count and not stall.lasts(done):
        if workers.is_dead:
            raise Broken(f"its worker ended: {workers.log()}")
        time.sleep(0.02)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
