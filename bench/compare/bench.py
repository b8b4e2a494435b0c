"""The environment of one run: folder, server, ledger, producer, and workers."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.compare.contestant import APPS, Contestant
from bench.compare.delay import DelayProxy
from bench.compare.ledger import Ledger
from bench.compare.machine import Look, look
from bench.compare.server import Server
from bench.compare.workers import Workers

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

    def ledger(self, count: int) -> Ledger:
        return Ledger(self.folder / "slots", count)

    def workers(self, ledger: Ledger, *, concurrency: int, job_ms: float = 0, log: str = "warn") -> Workers:
        slots = concurrency if not self.contestant.runs_one or job_ms else 1
        return Workers(
            self.contestant, self.programs, self.reached, ledger.path, concurrency=slots, job_ms=job_ms, log=log
        )

    def look(self, workers: Workers) -> Look:
        """Return the CPU time that workers, server and proxy have used so far."""
        return look(workers.pids, self.server.pid, proxy=self.proxy.pid if self.proxy is not None else 0)

    def produce(self, ledger: Ledger, *words: str, url: str | None = None) -> Mapping[str, float]:
        """Run the producer and return its figures; ``url`` if it does not connect directly. Raises Broken."""
        command = [str(part) for part in self.contestant.drive(self.programs)]
        environ = self.contestant.surroundings(url or self.server.url, ledger.path)
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


@contextmanager
def bench(contestant: Contestant, programs: Path, *, rtt_ms: float | None = None) -> Generator[Bench]:
    """Create the environment of one run; with ``rtt_ms``, workers use a proxy that adds this round trip."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)))
        server = stack.enter_context(Server())
        proxy = None if rtt_ms is None else stack.enter_context(DelayProxy(server.url, rtt_ms=rtt_ms))
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


def wait_for_all(ledger: Ledger, workers: Workers) -> None:
    """Wait until every job has ended, or until there is no progress; missing jobs then count as lost."""
    done, moved = -1, time.monotonic()
    while done < ledger.count and time.monotonic() - moved < STALL_SECONDS:
        if workers.is_dead:
            raise Broken(f"its worker ended: {workers.log()}")
        time.sleep(0.02)
        if (now := ledger.done_from_the_start()) > done:
            done, moved = now, time.monotonic()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
