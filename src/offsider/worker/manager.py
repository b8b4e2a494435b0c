"""Manages the processors of one capsule.

1. `start` starts as many processors as the capsule's concurrency. While one waits for a coroutine, another one takes
   its thread seat (`seats`).
2. The manager replaces a processor that dies, unless the manager is stopping, and requeues its job. A job whose
   threads died ``worker.max_strikes`` times in this process moves to the dead set. If threads die one after the other
   without a job, the worker exits.
3. After `quiet` the fetcher returns no more jobs; processors end after their current job.
4. A stop calls `wait` until its deadline, then `interrupt`, gives each thread a moment to settle its own outcome, and
   requeues the remaining jobs with `give_back`.
5. A job that still runs after its hard time limit has failed. The manager writes its outcome, abandons its thread, and
   makes the worker exit.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure
from offsider.core.wording import counted
from offsider.jobs.clients import Clients
from offsider.storage import strikes
from offsider.worker import outage
from offsider.worker.outage import Outage
from offsider.worker.processor import CapsuleParts, Processor
from offsider.worker.requeued import RequeueLog
from offsider.worker.run.async_runner import AsyncRunner
from offsider.worker.run.executor import Executor
from offsider.worker.run.job_logger import JobLogger
from offsider.worker.settle.settlement import Settlement

if TYPE_CHECKING:
    from offsider.worker.fetch.fetcher import Fetcher, FetcherContext
    from offsider.worker.parts import WorkerParts
    from offsider.worker.run.seats import Seats
    from offsider.worker.unit_of_work import Run, UnitOfWork

logger = logging.getLogger("offsider")

OVERRUN_SECONDS = 3.0
REPLACE_SECONDS = 0.1
#: The worker exits after this number of deaths of threads without a job, while no job ends.
MAX_DEATHS = 100


class Manager:
    """Keeps the processors of one capsule alive."""

    def __init__(self, parts: WorkerParts, context: FetcherContext, fetcher: Fetcher, seats: Seats) -> None:
        config, capsule = parts.config, context.capsule
        self._parts = parts
        self._config = config
        self._capsule = capsule
        self._fetcher = fetcher
        self._seats = seats
        self._work_state = parts.work_state
        self._abandoned = context.abandoned
        self._quiet = False
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._job_logger = JobLogger(config)
        self._outage = Outage(f"requeueing jobs of dead processors of capsule {capsule.name}", config)
        self._settlement = Settlement(config, fetcher)
        self.async_runner = AsyncRunner(f"offsider-{capsule.name}-loop", self._without_seat)
        server = Installation.of(config)
        # A job waits for its push as long as its worker for the server: to fail sooner would only repeat the job.
        clients = Clients(server, context.redis, capsule.client_middleware, server.settings.socket_timeout_seconds)
        self._shared = CapsuleParts(
            clients,
            config.clock,
            fetcher,
            self._settlement,
            parts.work_state,
            self.async_runner,
            seats,
            parts.isolation,
        )
        self._processors: list[Processor] = []
        #: Deaths of threads by the job that they had, and in a row without a job.
        self._deaths: Counter[str] = Counter()
        self._idle_deaths = 0
        self._ended = parts.work_state.runs.ended

    @property
    def name(self) -> str:
        return self._capsule.name

    def start(self) -> None:
        with self._lock:
            self._processors = [self._new() for _ in range(self._capsule.concurrency)]
            for processor in self._processors:
                processor.start()

    def quiet(self) -> None:
        """Stop claiming jobs. May be called twice."""
        with self._lock:
            self._quiet = True
        self._fetcher.quiet()
        self._seats.close()

    def wait(self, deadline: float) -> bool:
        """Wait until all processors have ended, or until ``deadline`` (monotonic seconds); True if all have ended."""
        for processor in self._alive():
            processor.join(max(0.0, deadline - time.monotonic()))
        return not self._alive()

    def interrupt(self) -> None:
        """Interrupt the running jobs whose threads can be interrupted."""
        for processor in self._alive():
            processor.interrupt()

    def give_back(self) -> int:
        """Requeue the jobs of threads that have not ended, and return their number.

        This is the last step before the process exits.
        """
        self._abandoned.set()
        units = [unsettled for processor in self._alive() if (unsettled := processor.unsettled()) is not None]
        try:
            self._fetcher.give_back(units)
        except RedisFailure as error:
            self._config.handle_error(error, {"context": "requeueing unfinished jobs at shutdown"})
            return 0
        if units:
            self._work_state.runs.requeued(len(units))
            log = RequeueLog("it did not finish in time")
            for unit, payload in units:
                log.add(payload, unit.queue)
            logger.warning("requeued %s that did not finish in time", counted(len(units), "job"))
        return len(units)

    @property
    def coroutines(self) -> int:
        """Jobs that run now and occupy no thread seat."""
        return self._seats.coroutines

    @property
    def unstarted(self) -> int:
        """Jobs that the stop requeued before they were started."""
        return self._fetcher.unstarted

    def close(self) -> None:
        self.async_runner.stop()
        self._fetcher.close()

    def _alive(self) -> list[Processor]:
        with self._lock:
            return [processor for processor in self._processors if processor.alive and not processor.given_up]

    def _new(self) -> Processor:
        executor = Executor(self._parts, self._capsule, self._job_logger, self.async_runner, self._overran)
        return Processor(f"offsider-{self._capsule.name}-{next(self._numbers)}", self._shared, executor, self._replace)

    @contextmanager
    def _without_seat(self) -> Generator[None]:
        """For a thread that waits for a coroutine."""
        if self._seats.give_up():
            self._add()
        try:
            yield
        finally:
            if self._seats.take_back():
                self._add()

    def _add(self) -> bool:
        """Start one more thread, unless the worker is quiet; False if the system has no more threads."""
        with self._lock:
            if self._quiet:
                return True
            self._processors = [processor for processor in self._processors if processor.alive]
            added = self._new()
            try:
                added.start()
            except RuntimeError as error:  # a thread that waits for a coroutine takes its seat back later
                self._config.handle_error(error, {"context": f"starting an additional thread for capsule {self.name}"})
                return False
            self._processors.append(added)
            return True

    def _overran(self, unit: UnitOfWork, run: Run) -> None:
        """End the worker in a new thread; the caller, the thread of the time limits, must not block."""
        threading.Thread(target=self._end_for, args=(unit, run), name="offsider-overrun", daemon=True).start()

    def _end_for(self, unit: UnitOfWork, run: Run) -> None:
        with self._lock:
            for processor in self._processors:
                processor.given_up = processor.given_up or processor.unit is unit
        unit.settled = True  # a later outcome of its thread is void
        settle = partial(self._settlement.settle, unit, run, overran=True)
        settling = threading.Thread(target=settle, name="offsider-overrun", daemon=True)
        settling.start()
        settling.join(OVERRUN_SECONDS)  # if Redis is unavailable, another worker will find the job
        if self._parts.give_up is not None:
            self._parts.give_up(f"a job of capsule {self.name} still runs after its hard time limit")

    def _replace(self, dead: Processor, error: BaseException) -> None:
        try:
            self._config.handle_error(error, {"context": f"a processor of capsule {self._capsule.name} died"})
        finally:  # even if an error handler calls sys.exit, which ends only this thread
            # Without the pause, a fault at start would create thousands of threads a second.
            self._abandoned.wait(REPLACE_SECONDS)
            self._fill_place_of(dead)
            self._rescue(dead, error)

    def _fill_place_of(self, dead: Processor) -> None:
        with self._lock:
            if dead in self._processors:
                self._processors.remove(dead)
        self._seats.leave()
        while not self._add() and not self._abandoned.wait(outage.RETRY_SECONDS):
            pass

    def _rescue(self, dead: Processor, error: BaseException) -> None:
        """Requeue or bury the job of a dead processor. Runs in the dying thread, which can wait for Redis."""
        deadly = self._is_deadly(dead.unsettled())
        while (unsettled := dead.unsettled()) is not None:
            try:
                if deadly:
                    self._settlement.bury(unsettled[0], error)
                else:
                    self._fetcher.give_back([unsettled])
            except RedisFailure as failure:
                self._outage.noticed(failure)
                if self._abandoned.wait(outage.RETRY_SECONDS):
                    return
            else:
                self._outage.over()
                return

    def _is_deadly(self, unsettled: tuple[UnitOfWork, bytes] | None) -> bool:
        """Count a death, and return whether the job has ended so many threads that it has to be buried."""
        if unsettled is not None:
            most, name = self._config.worker.max_strikes, strikes.name_of(unsettled[0].raw)
            with self._lock:
                self._deaths[name] += 1
                return 1 <= most <= self._deaths[name]
        with self._lock:
            ended, before = self._work_state.runs.ended, self._ended
            self._idle_deaths = self._idle_deaths + 1 if ended is before else 1
            self._ended = ended
            too_many = self._idle_deaths >= MAX_DEATHS
        if too_many and self._parts.give_up is not None:
            reason = f"the threads of capsule {self.name} die one after the other"
            logger.critical("%s: this worker exits for a restart", reason)
            self._parts.give_up(reason)
        return False
