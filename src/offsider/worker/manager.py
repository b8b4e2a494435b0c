"""The processors of one capsule.

1. `start` brings up as many processors as the capsule's concurrency says.
2. A processor that dies is replaced, unless the manager is stopping.
3. `quiet` makes the fetcher hand out nothing more; processors end after their job.
4. `wait`, up to the deadline of the stop; then `interrupt`; then a moment in which each thread settles its
   own outcome; then `give_back` what is left.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.worker.async_runner import AsyncRunner
from offsider.worker.execution import Executor
from offsider.worker.fetcher import ReliableFetcher
from offsider.worker.job_logger import JobLogger
from offsider.worker.outage import Outage
from offsider.worker.processor import Processor
from offsider.worker.report import Reporter
from offsider.worker.settlement import Settlement

if TYPE_CHECKING:
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config
    from offsider.worker.unit_of_work import Fetcher
    from offsider.worker.work_state import WorkState

logger = logging.getLogger("offsider")

OUTAGE_SECONDS = 1.0


class Manager:
    """Keeps the processors of one capsule alive."""

    def __init__(
        self,
        config: Config,
        capsule: Capsule,
        fetcher: Fetcher,
        work_state: WorkState,
        stopping: Callable[[], bool],
    ) -> None:
        self._config = config
        self._capsule = capsule
        self._fetcher = fetcher
        self._work_state = work_state
        self._stopping = stopping
        self._abandoned = threading.Event()
        self._quiet = False
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._job_logger = JobLogger(config)
        self._outage = Outage(f"giving back jobs of dead processors of capsule {capsule.name}", config)
        self._reporter = Reporter(config, work_state)
        self._settlement = Settlement(config, capsule, fetcher, self._reporter, self._abandoned)
        self.async_runner = AsyncRunner(f"offsider-{capsule.name}-loop")
        self._processors: list[Processor] = []

    @property
    def name(self) -> str:
        return self._capsule.name

    def start(self) -> None:
        with self._lock:
            self._processors = [self._new() for _ in range(self._capsule.concurrency)]
            for processor in self._processors:
                processor.start()

    def quiet(self) -> None:
        """Take no further jobs. May be called twice."""
        with self._lock:
            self._quiet = True
        self._fetcher.quiet()

    def wait(self, deadline: float) -> bool:
        """Wait until all processors have ended, at most to ``deadline`` (monotonic); True when they have."""
        for processor in self._alive():
            processor.join(max(0.0, deadline - time.monotonic()))
        return not self._alive()

    def interrupt(self) -> None:
        """Stop the running jobs, as far as their threads can be reached."""
        for processor in self._alive():
            processor.interrupt()

    def give_back(self) -> int:
        """Put back the jobs of threads that have not come to an end; the last step before the process exits.

        Answers how many there were.
        """
        self._abandoned.set()
        if isinstance(self._fetcher, ReliableFetcher):
            self._fetcher.abandon()
            self._fetcher.flush()
        units = [unit for processor in self._alive() if (unit := processor.unit) is not None and not unit.settled]
        if units:
            try:
                self._fetcher.bulk_requeue(units)
            except RedisFailure as error:
                self._config.handle_error(error, {"context": "giving jobs back at the stop"})
                return 0
            logger.warning("gave back %d jobs that did not end in time", len(units))
        return len(units)

    def close(self) -> None:
        self.async_runner.stop()
        if isinstance(self._fetcher, ReliableFetcher):
            self._fetcher.close()

    def _alive(self) -> list[Processor]:
        with self._lock:
            return [processor for processor in self._processors if processor.alive]

    def _new(self) -> Processor:
        executor = Executor(self._config, self._capsule, self._job_logger, self.async_runner, self._stopping)
        return Processor(
            config=self._config,
            capsule=self._capsule,
            fetcher=self._fetcher,
            executor=executor,
            settlement=self._settlement,
            work_state=self._work_state,
            reporter=self._reporter,
            async_runner=self.async_runner,
            name=f"offsider-{self._capsule.name}-{next(self._numbers)}",
            died=self._replace,
        )

    def _replace(self, dead: Processor, error: BaseException) -> None:
        try:
            self._config.handle_error(error, {"context": f"a processor of capsule {self._capsule.name} died"})
        finally:  # also when a handler asks to exit: that ends the thread, and no more
            self._fill_place_of(dead)
            self._rescue(dead)

    def _fill_place_of(self, dead: Processor) -> None:
        with self._lock:
            if dead in self._processors:
                self._processors.remove(dead)
            if self._quiet:
                return
            replacement = self._new()
            self._processors.append(replacement)
            replacement.start()

    def _rescue(self, dead: Processor) -> None:
        """Give back the job of a dead processor; in the dying thread, which has time to wait for Redis."""
        unit = dead.unit
        while unit is not None and not unit.settled:
            try:
                self._fetcher.requeue(unit)
            except RedisFailure as error:
                self._outage.noticed(error)
                if self._abandoned.wait(OUTAGE_SECONDS):
                    return
            else:
                self._outage.over()
                return
