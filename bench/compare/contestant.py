"""Describes a job system for the comparison."""

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
        name: name of its row.
        app: the module in apps/ that declares and pushes the job.
        rate: approximate no-op jobs/s of one process, for the size of the first run.
        worker: the command of one worker process, given its folder of programs and the concurrency.
        settings: description of its settings.
        safety: description of what happens to its jobs when a process dies.
        requirements: pinned requirements; empty for a program that must be installed on the machine.
        environ: environment variables of worker and producer.
        has_bulk: its app has ``push_bulk``.
        has_async_push: its app has ``apush`` beside ``push``, for programs with an event loop.
        runs_one: a process runs one job at a time, so that concurrency is a number of processes.
        gap_ms: pause between two pushes in latency tests.
        swarm: the command of several worker processes under one parent process, also given their number; default: one
            command per process.
        producer: the command of the producer, given its folder of programs; default: apps/drive.py.
        default_log: also measure it with its job log at the default level.
        is_python: whether it is written in Python.
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
    has_async_push: bool = False
    runs_one: bool = False
    gap_ms: float = 10
    swarm: Callable[[Path, int, int], Sequence[str | Path]] | None = None
    producer: Callable[[Path], Sequence[str | Path]] | None = None
    default_log: bool = False
    is_python: bool = True

    @property
    def environment(self) -> str:
        """Name of its virtual environment; configurations of one system share it."""
        return self.app.removesuffix("_app")

    def drive(self, programs: Path) -> list[str | Path]:
        """Return the command of its producer, without the arguments of drive.py."""
        if self.producer is not None:
            return [*self.producer(programs)]
        return [programs / "python", APPS / "drive.py", self.app]

    def surroundings(self, url: str, slots: Path) -> dict[str, str]:
        """Return the environment variables of worker and producer."""
        # Bytecode is kept, as `pip install` keeps that of the rivals: a checkout without it compiles at each boot.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {
            **inherited,
            **self.environ,
            "REDIS_URL": url,
            "BENCH_SLOTS": str(slots),
            "PYTHONPATH": str(APPS),
        }
