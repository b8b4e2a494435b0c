"""Manages the processors of one capsule.

1. `start` starts as many processors as the capsule's concurrency; coroutines run beside them (`async_runner`).
2. The manager replaces a processor that dies, unless the manager is stopping, and requeues its job. A job whose
   threads died ``worker.max_strikes`` times in this process moves to the dead set. If threads die one after the other
   without a job, the worker exits.
3. After `quiet` the fetcher returns no more jobs; processors end after their current job.
4. A stop calls `wait` until its deadline, then `interrupt`, gives each job a moment to settle its own outcome, and
   requeues the remaining jobs with `give_back`.
5. A job that still runs after its hard time limit has failed. The manager writes its outcome, abandons its thread or
   coroutine, and makes the worker exit.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure
from offsider.core.payload import interrupted
from offsider.core.wording import counted
from offsider.runtime import outage
from offsider.runtime.outage import Outage
from offsider.storage import strikes
from offsider.worker.disposition import RequeuedFirst
from offsider.worker.fetch.fetcher import Settled, always
from offsider.worker.processor import CapsuleParts, ChunkProcessor, Processor
from offsider.worker.requeued import RequeueLog
from offsider.worker.run.async_runner import AsyncRunner
from offsider.worker.run.chunks import Chunks
from offsider.worker.run.executor import Executor
from offsider.worker.run.job_logger import JobLogger
from offsider.worker.settle.settlement import Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offsider.runtime.context import Reach
    from offsider.worker.fetch.fetcher import Fetcher, FetcherContext
    from offsider.worker.parts import WorkerParts
    from offsider.worker.unit_of_work import Run, UnitOfWork

logger = logging.getLogger("offsider")

OVERRUN_SECONDS = 3.0
REPLACE_SECONDS = 0.1
#: The worker exits after this number of deaths of threads without a job, while no job ends.
MAX_DEATHS = 100


class Manager:
    """Keeps the processors of one capsule alive."""

    def __init__(self, parts: WorkerParts, context: FetcherContext, fetcher: Fetcher) -> None:
        config, capsule = parts.config, context.capsule
        self._parts = parts
        self._config = config
        self._capsule = capsule
        self._fetcher = fetcher
        self._work_state = parts.work_state
        self._abandoned = context.abandoned
        self._quiet = False
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._job_logger = JobLogger(config)
        self._outage = Outage(f"requeueing jobs of dead processors of capsule {capsule.name}", config)
        self._settlement = Settlement(config, fetcher)
        self.async_runner = AsyncRunner(
            f"offsider-{capsule.name}", capsule.settings.async_concurrency, capsule.concurrency
        )
        self._report = context.report
        server = Installation.of(config)
        # A job waits for its push as long as its worker for the server: to fail sooner would only repeat the job.
        timeout = server.settings.socket_timeout_seconds
        client = Client(server, context.redis, middleware=capsule.client_middleware, timeout_seconds=timeout)
        self._shared = CapsuleParts(
            client,
            config.clock,
            fetcher,
            self._settlement,
            parts.work_state,
            self.async_runner,
            self._rescue_coroutine,
            Chunks(
                partial(self._add, ChunkProcessor),
                always if parts.isolation is None else parts.isolation.claims_allowed,
                lambda: context.controls.paused,
                capsule.concurrency,
            ),
            parts.isolation,
        )
        self._processors: list[Processor] = []
        #: Deaths of threads by the job that they had, and in a row without a job.
        self._deaths: Counter[str] = Counter()
        self._idle_deaths = self._overruns = 0
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
        self._shared.chunks.quiet()  # first: from now on no member waits for a thread that would not start
        with self._lock:
            self._quiet = True
        self._fetcher.quiet()
        self.async_runner.quiet()

    def wait(self, deadline: float) -> bool:
        """Wait until all processors and coroutines have ended, or until ``deadline`` (monotonic seconds).

        Returns:
            True if all have ended, and their outcomes are written and reported.
        """
        for processor in self._alive():
            processor.join(max(0.0, deadline - time.monotonic()))
        if not self.async_runner.wait(deadline) or self._alive():
            return False
        return self._abandoned.is_set() or self._fetcher.wait_written(deadline)

    def interrupt(self) -> None:
        """Interrupt the coroutines, and the jobs whose threads can be interrupted."""
        self.async_runner.interrupt()
        for processor in self._alive():
            processor.interrupt()

    def runs(self) -> Iterator[tuple[UnitOfWork, Reach]]:
        """Yield the jobs that run now, each with what raises errors in its run."""
        for processor in self._alive():
            unit = processor.unit
            if unit is not None:
                yield unit, processor.reach(unit)
        yield from self.async_runner.running.copy().items()

    def give_back(self) -> int:
        """Requeue the jobs that have not ended or were interrupted; return the number of those that have not ended.

        This is the last step before the process exits.
        """
        self._abandoned.set()
        of_threads = [unsettled for processor in self._alive() if (unsettled := processor.unsettled()) is not None]
        of_threads += [pair for processor in self._alive() for pair in processor.unsettled_members()]
        # In this order: a coroutine that ends now moves from one to the other.
        of_coroutines = [*self.async_runner.running], [*self._shared.interrupted]
        left = [(unit, interrupted(unit.raw)) for units in of_coroutines for unit in units if not unit.settled]
        by_unit = dict(of_threads + left + [(unit, unit.raw) for unit in self._shared.chunks.waiting()])
        try:
            self._fetcher.give_back([*reversed(by_unit.items())])  # the newest first: so the oldest runs first
        except RedisFailure as error:
            self._config.handle_error(error, {"context": "requeueing unfinished jobs at shutdown"})
            return 0
        ended = [(unit, by_unit.pop(unit)) for unit in of_coroutines[1] if unit in by_unit]
        self._report([Settled(unit, RequeuedFirst(payload)) for unit, payload in ended])
        units = [*by_unit.items()]
        if units:
            self._work_state.runs.requeued(len(units))
            log = RequeueLog("it did not finish in time")
            for unit, payload in units:
                log.add(payload, unit.queue)
            logger.warning("requeued %s that did not finish in time", counted(len(units), "job"))
        return len(units)

    @property
    def coroutines(self) -> int:
        """Jobs that run now without a thread."""
        return len(self.async_runner.running)

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

    def _new(self, kind: type[Processor] = Processor) -> Processor:
        executor = Executor(self._parts, self._capsule, self._job_logger, self.async_runner, self._overran)
        return kind(f"offsider-{self._capsule.name}-{next(self._numbers)}", self._shared, executor, self._replace)

    def _add(self, kind: type[Processor] = Processor) -> bool:
        """Start one more thread, unless the worker is quiet; False if the system has no more threads."""
        with self._lock:
            if self._quiet:
                return True
            self._processors = [each for each in self._processors if each.alive]  # those of chunks end
            added = self._new(kind)
            try:
                added.start()
            except RuntimeError as error:
                self._config.handle_error(error, {"context": f"starting another thread for capsule {self.name}"})
                return False
            self._processors.append(added)
            return True

    def _overran(self, unit: UnitOfWork, run: Run) -> None:
        """End the worker in a new thread; the caller, the thread of the time limits, must not block."""
        with self._lock:
            self._overruns += 1
        threading.Thread(target=self._end_for, args=(unit, run), name="offsider-overrun", daemon=True).start()

    def _end_for(self, unit: UnitOfWork, run: Run) -> None:
        with self._lock:
            for processor in self._processors:
                processor.given_up = processor.given_up or processor.runs(unit)
        self.async_runner.give_up(unit)
        unit.settled = True  # a later outcome of its thread is void
        settle = partial(self._settlement.settle, unit, run, overran=True)
        settling = threading.Thread(target=settle, name="offsider-overrun", daemon=True)
        settling.start()
        settling.join(OVERRUN_SECONDS)  # if Redis is unavailable, another worker will find the job
        with self._lock:
            self._overruns -= 1
            is_last = self._overruns == 0  # of the members of a chunk
        if is_last and self._parts.give_up is not None:
            self._parts.give_up(f"a job of capsule {self.name} still runs after its hard time limit")

    def _replace(self, dead: Processor, error: BaseException) -> None:
        try:
            self._config.handle_error(error, {"context": f"a processor of capsule {self._capsule.name} died"})
        finally:  # even if an error handler calls sys.exit, which ends only this thread
            # Without the pause, a fault at start would create thousands of threads a second.
            self._abandoned.wait(REPLACE_SECONDS)
            self._fill_place_of(dead)
            self._rescue(dead.unsettled, error)

    def _rescue_coroutine(self, unit: UnitOfWork, error: BaseException) -> None:
        """Requeue or bury the job of a coroutine whose run could not be settled."""
        try:
            self._config.handle_error(error, {"context": f"settling a coroutine of capsule {self.name}"})
        finally:
            self._rescue(lambda: None if unit.settled else (unit, interrupted(unit.raw)), error)

    def _fill_place_of(self, dead: Processor) -> None:
        with self._lock:
            if dead in self._processors:
                self._processors.remove(dead)
        if isinstance(dead, ChunkProcessor):
            return
        while not self._add() and not self._abandoned.wait(outage.RETRY_SECONDS):
            pass

    def _rescue(self, left: Callable[[], tuple[UnitOfWork, bytes] | None], error: BaseException) -> None:
        """Requeue or bury a job; runs in the thread that failed with it, which can wait for Redis.

        Args:
            left: returns the job and the payload to requeue; None once it is settled.
        """
        deadly = self._is_deadly(left())
        while (unsettled := left()) is not None:
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
