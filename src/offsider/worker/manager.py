"""The processors of one capsule.

1. `start` brings up as many processors as the capsule's concurrency says.
2. A processor that dies is replaced, unless the manager is stopping.
3. `quiet` makes the fetcher hand out nothing more; processors end after their job.
4. `wait`, up to the deadline of the stop; then `interrupt`; then a moment in which each thread settles its
   own outcome; then `give_back` what is left.
5. A job that still runs after its hard time limit has failed: its outcome is written without its thread, which is
   given up, and the worker is told to end.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.core.wording import counted
from offsider.worker.async_runner import AsyncRunner
from offsider.worker.execution import Executor
from offsider.worker.fetcher import ReliableFetcher
from offsider.worker.job_logger import JobLogger
from offsider.worker.outage import Outage
from offsider.worker.processor import Processor
from offsider.worker.report import Reporter
from offsider.worker.settlement import Settled, Settlement
from offsider.worker.switchboard import NO_SWITCHES, Switchboard

if TYPE_CHECKING:
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config
    from offsider.worker.ability import Abilities
    from offsider.worker.failures import Failures
    from offsider.worker.outcome import Run
    from offsider.worker.solitude import Solitude
    from offsider.worker.time_limits import TimeLimits
    from offsider.worker.unit_of_work import Fetcher, UnitOfWork
    from offsider.worker.work_state import WorkState

logger = logging.getLogger("offsider")

OUTAGE_SECONDS = 1.0
OVERRUN_SECONDS = 3.0
REPLACE_SECONDS = 0.1


class Manager:
    """Keeps the processors of one capsule alive.

    Args:
        stopping: tells whether the worker is on its way out.
        time_limits: of the worker's jobs.
        give_up: ends the worker, for the given reason, so that it is started anew.
        switchboard: says of which jobs no run begins.
        abilities: says what becomes of jobs that this worker cannot run.
    """

    def __init__(
        self,
        config: Config,
        capsule: Capsule,
        fetcher: Fetcher,
        work_state: WorkState,
        stopping: Callable[[], bool],
        *,
        time_limits: TimeLimits | None = None,
        give_up: Callable[[str], None] | None = None,
        failures: Failures | None = None,
        switchboard: Switchboard = NO_SWITCHES,
        abilities: Abilities | None = None,
    ) -> None:
        self._time_limits = time_limits
        self._switchboard = switchboard
        self._abilities = abilities
        self._give_up = give_up
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
        self._reporter = Reporter(config, work_state, failures, abilities)
        self._settlement = Settlement(config, capsule, fetcher, self._reporter, self._abandoned)
        self.async_runner = AsyncRunner(f"offsider-{capsule.name}-loop")
        self._processors: list[Processor] = []
        #: Says which jobs must run alone in the worker; to be set before the start.
        self.solitude: Solitude | None = None

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
            logger.warning("gave back %s that did not end in time", counted(len(units), "job"))
        return len(units)

    def close(self) -> None:
        self.async_runner.stop()
        if isinstance(self._fetcher, ReliableFetcher):
            self._fetcher.close()

    def _alive(self) -> list[Processor]:
        with self._lock:
            return [processor for processor in self._processors if processor.alive and not processor.given_up]

    def _new(self) -> Processor:
        executor = Executor(
            self._config,
            self._capsule,
            self._job_logger,
            self.async_runner,
            self._stopping,
            time_limits=self._time_limits,
            overran=self._overran,
            switchboard=self._switchboard,
            abilities=self._abilities,
        )
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
            solitude=self.solitude,
        )

    def _overran(self, unit: UnitOfWork, run: Run) -> None:
        """Called by the thread of the time limits, which has others to look after."""
        threading.Thread(target=self._end_for, args=(unit, run), name="offsider-overrun", daemon=True).start()

    def _end_for(self, unit: UnitOfWork, run: Run) -> None:
        with self._lock:
            for processor in self._processors:
                processor.given_up = processor.given_up or processor.unit is unit
        settling = threading.Thread(target=self._settle_for, args=(unit, run), name="offsider-overrun", daemon=True)
        settling.start()
        settling.join(OVERRUN_SECONDS)  # Redis may be away: then the job is found by others
        if self._give_up is not None:
            self._give_up(f"a job of capsule {self.name} still runs after its hard time limit")

    def _settle_for(self, unit: UnitOfWork, run: Run) -> None:
        settled = self._settlement.settle_without_its_thread(unit, run)
        if settled in (Settled.WRITTEN, Settled.DIED):
            self._reporter.settled(unit, run, died=settled is Settled.DIED)

    def _replace(self, dead: Processor, error: BaseException) -> None:
        try:
            self._config.handle_error(error, {"context": f"a processor of capsule {self._capsule.name} died"})
        finally:  # also when a handler asks to exit: that ends the thread, and no more
            # What kills processors as soon as they start would otherwise start thousands of threads a second.
            self._abandoned.wait(REPLACE_SECONDS)
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
