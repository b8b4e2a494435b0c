"""Starts the worker processes of one run, optionally pinned to a CPU, and kills them with all their children."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.compare.contestant import APPS, Contestant
from bench.compare.machine import tree


class Workers:
    """The workers of one contestant on one server.

    Args:
        programs: the folder of its programs.
        concurrency: number of concurrent jobs of each process.
        job_ms: how long a job sleeps.
        log: ``"warn"``, or ``"info"`` for the job log at its default level, written to a file.
    """

    def __init__(
        self,
        contestant: Contestant,
        programs: Path,
        url: str,
        slots: Path,
        *,
        concurrency: int,
        job_ms: float = 0,
        log: str = "warn",
    ) -> None:
        self._contestant, self._programs, self._concurrency = contestant, programs, concurrency
        self._log_file = slots.with_suffix(".log")
        self._environ = contestant.surroundings(url, slots) | {
            "BENCH_CONCURRENCY": str(concurrency),
            "BENCH_JOB_MS": str(job_ms),
            "BENCH_LOG": log,
            "OFFSIDER_LOG_LEVEL": log,
        }
        self._processes: list[subprocess.Popen[bytes]] = []

    def start_all(self, processes: int, *, pinned: bool) -> None:
        """Start this number of processes, under a parent process if there is one; a parent process cannot pin them."""
        swarm = self._contestant.swarm
        if swarm is None or processes == 1 or pinned:
            for _ in range(processes):
                self.start(pinned=pinned)
        else:
            self._launch(swarm(self._programs, self._concurrency, processes))

    def start(self, *, pinned: bool = False) -> None:
        """Start one more process; ``pinned`` gives each its own CPU while there are enough."""
        command = self._contestant.worker(self._programs, self._concurrency)
        cpus = sorted(os.sched_getaffinity(0), reverse=True)
        cpu = cpus[len(self._processes) % len(cpus)]
        self._launch(["taskset", "-c", str(cpu), *command] if pinned else command)

    def _launch(self, command: Sequence[str | Path]) -> None:
        with self._log_file.open("ab") as log:
            process = subprocess.Popen(
                [str(part) for part in command],
                env=self._environ,
                cwd=APPS,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    @property
    def is_dead(self) -> bool:
        return any(process.poll() is not None for process in self._processes)

    def log(self, lines: int = 15) -> str:
        """Return the end of their output."""
        return "\n".join(self._log_file.read_text(errors="replace").splitlines()[-lines:])

    def kill(self) -> None:
        """Send SIGKILL to all of them at once, as if their machine died."""
        every = {pid for process in self._processes for pid in tree(process.pid)}
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for pid in every:  # those with a session of their own
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._processes:
            process.wait()
        deadline = time.monotonic() + 5
        while any(Path(f"/proc/{pid}/exe").exists() for pid in every) and time.monotonic() < deadline:
            time.sleep(0.005)
        self._processes = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
