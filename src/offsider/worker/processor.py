"""A thread that runs jobs, one after the other.

1. Wait for a seat (`seats`), then take a unit of work from the fetcher. The thread ends if it gets no seat, or if the
   fetcher is quiet. A suspected poison pill waits until it can run alone in this process.
2. Run it: the executor returns an outcome.
3. Settle the outcome: `settlement` decides where the job goes, and the fetcher writes it with one script. The
   acknowledgement of a finished job may be sent together with others. The thread that reads the reply reports it
   (`report`).
4. Forget the run: steps 2 and 3 have a context of their own, and the frames of a failed job are cleared. What a job
   leaves behind would otherwise remain until the next job of this thread.

An error in these steps themselves ends the thread; the manager then starts another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.core.outcome import NotStarted, Succeeded
from offsider.core.payload import interrupted
from offsider.core.tracebacks import clear_frames
from offsider.jobs.clients import Clients, pushing_with
from offsider.logs.setup import thread_id
from offsider.worker.unit_of_work import Run

if TYPE_CHECKING:
    from offsider.core.clock import Clock
    from offsider.worker.alive.isolation import Isolation
    from offsider.worker.fetch.fetcher import Fetcher
    from offsider.worker.run.async_runner import AsyncRunner
    from offsider.worker.run.executor import Executor
    from offsider.worker.run.seats import Seats
    from offsider.worker.settle.settlement import Settlement
    from offsider.worker.unit_of_work import UnitOfWork
    from offsider.worker.work_state import WorkState


@dataclass(frozen=True, slots=True)
class CapsuleParts:
    """Objects that the processors of one capsule share.

    Attributes:
        clients: push the jobs that running jobs enqueue.
        isolation: decides which jobs must run alone, and when they may.
    """

    clients: Clients
    clock: Clock
    fetcher: Fetcher
    settlement: Settlement
    work_state: WorkState
    async_runner: AsyncRunner
    seats: Seats
    isolation: Isolation | None = None


class Processor:
    """One thread of a capsule.

    Args:
        died: called in the dying thread with this processor and the error; not called at a normal end.
    """

    def __init__(
        self, name: str, parts: CapsuleParts, executor: Executor, died: Callable[[Processor, BaseException], None]
    ) -> None:
        self._parts = parts
        self._fetcher = parts.fetcher
        self._executor = executor
        self._settlement = parts.settlement
        self._work_state = parts.work_state
        self._clock = parts.clock
        self._died = died
        self._tid = ""
        self._unit: UnitOfWork | None = None
        self._started = False
        #: Its job has failed but still runs; the manager no longer waits for this thread.
        self.given_up = False
        # A thread that is started inside a job does not inherit the job's context variables.
        self._thread = threading.Thread(target=Context().run, args=(self._run,), name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_seconds: float | None) -> bool:
        """Wait for the thread to end; True when it has."""
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def unit(self) -> UnitOfWork | None:
        """The current unit; for a dead processor, its unsettled one."""
        return self._unit

    def unsettled(self) -> tuple[UnitOfWork, bytes] | None:
        """Return the job and the payload to requeue; a started job has its ``interrupted_count`` incremented."""
        unit = self._unit
        if unit is None or unit.settled:
            return None
        return unit, interrupted(unit.raw) if self._started else unit.raw

    def interrupt(self) -> None:
        """Interrupt the running job, if possible."""
        thread_id = self._thread.ident
        if thread_id is not None and not self._parts.async_runner.cancel(thread_id):
            self._executor.window.interrupt()

    def _run(self) -> None:
        isolation, seats = self._parts.isolation, self._parts.seats
        ident, retrieve = threading.get_ident(), self._fetcher.retrieve
        try:
            with pushing_with(self._parts.clients):
                self._tid = thread_id()
                context = copy_context()
                while (ident in seats.seated or seats.wait()) and (unit := retrieve()) is not None:
                    if isolation is not None and isolation.is_suspect(unit):
                        failure = context.copy().run(self._process_alone, unit, isolation)
                    else:
                        failure = context.copy().run(self._process, unit)
                    if failure is not None:
                        clear_frames(failure)
                    del unit, failure
        except BaseException as error:  # noqa: BLE001 - the last words of a thread
            self._died(self, error)
        finally:
            seats.leave()

    def _process_alone(self, unit: UnitOfWork, isolation: Isolation) -> BaseException | None:
        """Run a suspect while no other job runs here, or requeue it at the tail of its queue."""
        self._unit = unit
        failure = None
        with isolation.alone(unit) as granted:
            if granted:
                failure = self._process(unit)
            else:
                self._settlement.settle(
                    unit, Run(None, NotStarted("queue", name="not alone"), self._clock.now(), 0.0, None)
                )
        self._unit = None
        return failure

    def _process(self, unit: UnitOfWork) -> BaseException | None:
        """Run and settle a job, and return the error that it ended with."""
        started_at = self._clock.now()
        self._started = True
        self._unit = unit
        self._work_state.begin(self._tid, unit, started_at)
        try:
            run = self._executor.run(unit, started_at)
            self._settlement.settle(unit, run)
        finally:
            self._work_state.end(self._tid)
        self._unit = None
        self._started = False
        job = run.job
        if job is not None and (job.control is not None or job.wrappers):
            job.ended()
        return None if type(run.outcome) is Succeeded else getattr(run.outcome, "error", None)
