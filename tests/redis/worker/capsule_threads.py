"""The threads of one capsule at work, as in a process of its own; several of them act as several processes.

capsule = CapsuleThreads(config, concurrency=2, queues=("high", "low"))
capsule.start()
push(raw_redis, 1, 2, queue="low")      jobs `J(1)` and `J(2)`, pushed like a foreign client
capsule.work.does[2] = event.wait          the body of J(2); the others do nothing
capsule.work.runs                          the jobs that ran, in the order of their starts
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from offsider import current_job, job
from offsider.config.config import Config
from offsider.core.payload import encode
from offsider.worker.controls import ControlsReader
from offsider.worker.manager import Manager
from offsider.worker.parts import WorkerParts
from offsider.worker.run.control_rules import ControlRules
from offsider.worker.settle.report import Reporter
from offsider.worker.work_state import WorkState
from tests.redis.worker.conftest import Parts


@dataclass
class Run:
    """One start of a job."""

    number: int
    queue: str
    thread: str
    at: float


@dataclass
class Work:
    """What the jobs of a test do, and which of them have run."""

    does: dict[int, Callable[[], object]] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    @property
    def numbers(self) -> list[int]:
        return [run.number for run in self.runs]

    def declare(self) -> None:
        """Make `J` the job of this test."""

        @job(name="J", retry=False)
        def run(number: int) -> None:
            thread = threading.current_thread().name
            self.runs.append(Run(number, current_job().queue, thread, time.monotonic()))
            self.does.get(number, lambda: None)()

        @job(name="A", retry=False)
        async def arun(number: int) -> None:
            self.runs.append(Run(number, current_job().queue, threading.current_thread().name, time.monotonic()))
            if number in self.does:
                await asyncio.to_thread(self.does[number])


def payload(number: int, name: str = "J") -> bytes:
    return encode({"class": name, "args": [number], "jid": f"{number:024x}", "retry": False})


def push(client: Any, *numbers: int, queue: str = "default", name: str = "J") -> None:
    client.lpush(f"queue:{queue}", *(payload(number, name) for number in numbers))


class CapsuleThreads:
    """The threads of a capsule with their dependencies.

    Attributes:
        lost: void outcomes.
        errors: errors passed to error handlers.
    """

    def __init__(self, config: Config, *, concurrency: int = 1, queues: tuple[str, ...] = ("default",)) -> None:
        self.config = config
        self.lost: list[str] = []
        config.on("lost_ownership", lambda news: self.lost.append(news.job.jid))
        self.parts = Parts(config, queues)
        self.errors = self.parts.errors
        self.parts.capsule.settings.concurrency = concurrency
        self.fetcher = self.parts.fetcher
        self.state = WorkState()
        reporter = Reporter(config, self.state)
        self.parts.listeners.append(reporter.settled)
        shared = WorkerParts(config, self.state, reporter, lambda: False)
        self.manager = Manager(shared, self.parts.context, self.fetcher)
        self.processed = 0

    def start(self) -> CapsuleThreads:
        self.parts.context.controls.read_at = math.inf  # no queue is paused
        self.parts.ownership.register()
        self.manager.start()
        return self

    def read_controls(self) -> None:
        """Read the paused queues, as a worker does each second."""
        ControlsReader(
            self.config,
            self.parts.redis,
            self.parts.context.controls,
            ControlRules(self.config, self.parts.redis),
            identity=lambda: self.parts.ownership.identity,
            on_signal=lambda _: None,
            on_pauses=self.fetcher.wake,
        ).tick()

    @property
    def idle(self) -> bool:
        """All of its threads wait, and the leader sleeps."""
        return self.fetcher.idle_count == self.parts.capsule.concurrency and self.fetcher._wait.asleep

    def private(self, client: Any) -> list[bytes]:
        """The jobs in its private lists."""
        keys = client.keys(f"offsider:working:{self.parts.ownership.identity}:*")
        return [raw for key in keys for raw in client.lrange(key, 0, -1)]

    def counted(self) -> int:
        """How many jobs it has counted since the start."""
        self.processed += self.state.runs.take().totals[0]
        return self.processed

    def stop(self) -> None:
        """End like a worker; remaining jobs are requeued."""
        self.manager.quiet()
        if not self.manager.wait(time.monotonic() + 10):
            self.manager.interrupt()
            self.manager.give_back()
        self.manager.close()
        self.parts.close()
