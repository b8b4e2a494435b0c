"""What a job system has to tell so that it can be measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

APPS = Path(__file__).parent / "apps"


@dataclass(frozen=True)
class Contestant:
    """One job system in one configuration.

    Attributes:
        name: of the row.
        app: the module in apps/ that declares and pushes the job.
        rate: no-op jobs/s of one process, roughly: how many jobs the first run gets.
        worker: the command of one worker process, given its folder of programs and the concurrency.
        settings: how it is run, in words.
        safety: what becomes of its jobs when a process dies, in words.
        requirements: pinned; empty for one that is on this machine.
        environ: for worker and producer.
        has_bulk: its app has ``push_bulk``.
        runs_one: a process runs one job at a time, so that concurrency is a number of processes.
        gap_ms: between two pushes when latency is measured.
        swarm: the command of several worker processes under one supervisor, given their number too; default: as many
            commands as processes.
        producer: the command of the producer, given its folder of programs; default: apps/drive.py.
        default_log: its job log at the default level is measured too.
        is_python: False for the one that is not.
    """

    name: str
    app: str
    rate: int
    worker: Callable[[Path, int], Sequence[str | Path]]
    settings: str
    safety: str
    requirements: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    has_bulk: bool = False
    runs_one: bool = False
    gap_ms: float = 10
    swarm: Callable[[Path, int, int], Sequence[str | Path]] | None = None
    producer: Callable[[Path], Sequence[str | Path]] | None = None
    default_log: bool = False
    is_python: bool = True

    @property
    def environment(self) -> str:
        """The name of its virtual environment; configurations of one system share it."""
        return self.app.removesuffix("_app")

    def drive(self, programs: Path) -> list[str | Path]:
        """The command of its producer, up to the words that say what to push."""
        if self.producer is not None:
            return [*self.producer(programs)]
        return [programs / "python", APPS / "drive.py", self.app]

    def surroundings(self, url: str, slots: Path) -> dict[str, str]:
        """The environment variables that worker and producer run with."""
        return {
            **os.environ,
            **self.environ,
            "REDIS_URL": url,
            "BENCH_SLOTS": str(slots),
            "PYTHONPATH": str(APPS),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
