"""What one run needs: a folder, a server, a ledger, a producer, workers, and the noise beside it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.compare.contestant import APPS, Contestant
from bench.compare.ledger import Ledger
from bench.compare.server import Server
from bench.compare.workers import Workers

BOOT_SECONDS = 60.0
STALL_SECONDS = 15.0
FILL_SECONDS = 300.0


class Broken(Exception):
    """A contestant did not do what a run needs; the message says what it wrote."""


@dataclass(frozen=True)
class Bench:
    """The place of one run.

    Attributes:
        programs: the folder of the contestant's programs.
        folder: of the run's files.
    """

    contestant: Contestant
    programs: Path
    folder: Path
    server: Server

    def ledger(self, count: int) -> Ledger:
        return Ledger(self.folder / "slots", count)

    def workers(self, ledger: Ledger, *, concurrency: int, job_ms: float = 0, log: str = "warn") -> Workers:
        slots = concurrency if not self.contestant.runs_one or job_ms else 1
        return Workers(
            self.contestant, self.programs, self.server.url, ledger.path, concurrency=slots, job_ms=job_ms, log=log
        )

    def produce(self, ledger: Ledger, *words: str) -> Mapping[str, float]:
        """Run the producer and answer its figures. Raises Broken."""
        command = [str(part) for part in self.contestant.drive(self.programs)]
        environ = self.contestant.surroundings(self.server.url, ledger.path)
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
def bench(contestant: Contestant, programs: Path) -> Generator[Bench]:
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder, Server() as server:
        yield Bench(contestant, programs, Path(folder), server)


def wait_until(condition: Callable[[], bool], workers: Workers, *, seconds: float, poll_seconds: float = 0.01) -> None:
    """Raises Broken when the workers die or the time is over."""
    deadline = time.monotonic() + seconds
    while not condition():
        if workers.is_dead:
            raise Broken(f"its worker ended: {workers.log()}")
        if time.monotonic() > deadline:
            raise Broken(f"nothing happened for {seconds:g} s: {workers.log()}")
        time.sleep(poll_seconds)


def wait_for_all(ledger: Ledger, workers: Workers) -> None:
    """Until every job has ended, or nothing has moved for a while: what is missing then counts as lost."""
    done, moved = -1, time.monotonic()
    while done < ledger.count and time.monotonic() - moved < STALL_SECONDS:
        if workers.is_dead:
            raise Broken(f"its worker ended: {workers.log()}")
        time.sleep(0.02)
        if (now := ledger.done_from_the_start()) > done:
            done, moved = now, time.monotonic()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
