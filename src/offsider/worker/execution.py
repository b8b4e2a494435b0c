"""One run of a job, from its bytes to its outcome.

1. Decode. Bytes that are no job end here.
2. A switch may stop the job, and `ability` judges one that cannot run here: then one line is logged, and no run begins.
3. Pass the gates among the server middleware, which may store the job elsewhere: one line again. Log ``start``.
4. Enter the reloader: what a web framework sets up and cleans around each request.
5. Find the declared job by its class name, in the registry only.
6. Walk the server middleware; at the end of the chain `perform` runs, inside the interruptible window.
7. Turn what came back, or was raised, into an `Outcome`, and log ``done`` or ``fail``.

Nothing here writes to Redis: `settlement` does, with the outcome.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, cast

from offsider.core.compression import COMPRESSED, expand
from offsider.core.errors import Discard, HardTimeout, MalformedPayload, MovedAway, Reschedule, Skip
from offsider.core.payload import decode
from offsider.jobs import registry
from offsider.wiring.config import no_reload
from offsider.wiring.context import JobContext, enter_job, leave_job
from offsider.worker.interrupt import Window, caused_by_shutdown
from offsider.worker.outcome import (
    Discarded,
    Failed,
    Interrupted,
    Malformed,
    Moved,
    Outcome,
    Rescheduled,
    Run,
    Skipped,
    Succeeded,
)
from offsider.worker.reach import Reach
from offsider.worker.switchboard import NO_SWITCHES

if TYPE_CHECKING:
    from offsider.jobs.registry import Declared
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config
    from offsider.worker.ability import Abilities
    from offsider.worker.async_runner import AsyncRunner
    from offsider.worker.job_logger import JobLogger
    from offsider.worker.switchboard import Switchboard
    from offsider.worker.time_limits import Limits, TimeLimits
    from offsider.worker.unit_of_work import UnitOfWork

#: CPU time is asked of the kernel twice a run, which costs as much as a tenth of the shortest ones. After a run that
#: was shorter than this, so many are not measured, unless somebody wants to be told of each.
SHORT_SECONDS = 0.001
SHORT_RUNS = 15

_SUCCEEDED = Succeeded()
_INTERRUPTED = Interrupted()


class Executor:
    """Runs the jobs of one processor, one after the other.

    Args:
        config: reloader and stop flag come from here.
        capsule: whose server middleware is walked.
        job_logger: writes ``start``, ``done`` and ``fail``.
        async_runner: where coroutines run.
        stopping: tells a job that the worker wants to stop.
        time_limits: watches the jobs that have a limit; None: limits are not kept.
        overran: gets the unit and the run of a job that has failed because it still runs after its hard limit.
        switchboard: says of which jobs no run begins.
        abilities: says what becomes of jobs that this worker cannot run; None: they fail.
    """

    def __init__(
        self,
        config: Config,
        capsule: Capsule,
        job_logger: JobLogger,
        async_runner: AsyncRunner,
        stopping: Callable[[], bool],
        *,
        time_limits: TimeLimits | None = None,
        overran: Callable[[UnitOfWork, Run], None] | None = None,
        switchboard: Switchboard = NO_SWITCHES,
        abilities: Abilities | None = None,
    ) -> None:
        self._reloader: Callable[[], AbstractContextManager[object]] = config.reloader
        self._reloads = config.reloader is not no_reload
        self._listened = config.events.listened
        self._sampled = config.worker.metrics
        #: So many runs are not measured from here on.
        self._unmeasured = 0
        #: Of the last run, without the lines that were logged around it.
        self._cpu_seconds: float | None = None
        gates, others = capsule.server_middleware.split()
        self._chain = others.compose(self._perform)
        #: What decides whether the job may run at all; None without such middleware.
        self._gates = gates.compose(self._run_within_gates) if len(gates) else None
        self._ended: list[tuple[Outcome, float]] = []
        self._logger = job_logger
        self._async_runner = async_runner
        self._stopping = stopping
        self._time_limits = time_limits
        self._overran = overran
        self._switchboard = switchboard
        self._abilities = abilities
        self._unit: UnitOfWork | None = None
        self.window = Window()

    def run(self, unit: UnitOfWork) -> Run:
        """Run one job. Never raises an error of the job."""
        started = time.perf_counter()
        try:
            payload = decode(unit.raw)
            if COMPRESSED in payload:
                payload = expand(payload, unit.raw)
            job = JobContext(
                payload=payload,
                queue=unit.queue,
                raw=unit.raw,
                is_stopping=self._stopping,
                owner=unit.owner,
                alone_in=unit.alone_in,
            )
        except MalformedPayload as error:
            return Run(None, Malformed(error), time.perf_counter() - started, None)
        self._unit = unit
        token = enter_job(job)
        try:
            not_begun = self._not_begun(job)
            if not_begun is not None:
                self._logger.instead_of_a_run(job, not_begun)
                return Run(job, not_begun, time.perf_counter() - started, None)
            outcome, duration_seconds = (
                self._logged(started, job) if self._gates is None else self._through_gates(self._gates, job)
            )
        finally:
            leave_job(token)
        return Run(job, outcome, duration_seconds, self._cpu_seconds)

    def _not_begun(self, job: JobContext) -> Outcome | None:
        """What becomes of a job that shall not run, or cannot run here; None for nearly all."""
        try:
            if self._switchboard.on:
                switched = self._switchboard.judge(job)
                if switched is not None:
                    return switched
            payload = job.payload
            declared = job.declared = registry.peek(payload["class"])
            if declared is None or payload.get("signature") not in declared.signatures:
                return None if self._abilities is None else self._abilities.judge(job, declared)
        except Exception as error:  # noqa: BLE001 - of a job that runs as well everything is its failure
            return Failed(error)
        return None

    def _through_gates(self, gates: Callable[[JobContext], object], job: JobContext) -> tuple[Outcome, float]:
        """Run a job if the gates let it pass; else one line tells what becomes of it, and none that it starts."""
        started = time.perf_counter()
        self._cpu_seconds = None
        try:
            gates(job)
        except (Reschedule, Discard, Skip, MovedAway) as signal:
            outcome = _asked_for(signal)
        except BaseException as error:  # noqa: BLE001 - as of the job itself
            outcome = _INTERRUPTED if caused_by_shutdown(error) else Failed(error)
        else:
            outcome = _SUCCEEDED
        if self._ended:
            return self._ended.pop()
        self._logger.instead_of_a_run(job, outcome)
        return outcome, time.perf_counter() - started

    def _run_within_gates(self, job: JobContext) -> None:
        self._ended.append(self._logged(time.perf_counter(), job))

    def _logged(self, started: float, job: JobContext) -> tuple[Outcome, float]:
        if self._logger.wants(job):
            return self._logger.around(job, partial(self._timed, started))
        return self._timed(started, job)

    def _timed(self, started: float, job: JobContext) -> tuple[Outcome, float]:
        if self._unmeasured or not self._measures:
            self._cpu_seconds = None
            outcome = self._outcome(job)
            duration_seconds = time.perf_counter() - started
            self._unmeasured = self._unmeasured - 1 if self._unmeasured and duration_seconds < SHORT_SECONDS else 0
            return outcome, duration_seconds
        cpu_started = time.thread_time()
        outcome = self._outcome(job)
        self._cpu_seconds = time.thread_time() - cpu_started
        duration_seconds = time.perf_counter() - started
        if duration_seconds < SHORT_SECONDS and not self._listened("execution_finished"):
            self._unmeasured = SHORT_RUNS
        return outcome, duration_seconds

    @property
    def _measures(self) -> bool:
        return self._sampled or self._listened("execution_finished")

    def _outcome(self, job: JobContext) -> Outcome:
        try:
            if self._reloads:
                with self._reloader():
                    self._find_and_run(job)
            else:
                self._find_and_run(job)
        except (Reschedule, Discard, Skip, MovedAway) as signal:
            return _asked_for(signal)
        except BaseException as error:  # noqa: BLE001 - SystemExit of a job must not end the worker's thread
            return _INTERRUPTED if caused_by_shutdown(error) else Failed(error)
        return _SUCCEEDED

    def _find_and_run(self, job: JobContext) -> None:
        if job.declared is None:
            job.declared = registry.find(job.payload["class"])
        self._chain(job)

    def _perform(self, job: JobContext) -> object:
        declared = cast("Declared", job.declared)
        instance = declared.make(job)
        args, kwargs = job.payload["args"], job.payload.get("kwargs", {})
        declared.check_fits(args, kwargs)
        limits = None if self._time_limits is None else self._time_limits.of(job, declared)
        if limits is not None:
            return self._perform_within(limits, job, partial(declared.perform, instance, args, kwargs))
        with self.window:
            result = declared.perform(instance, args, kwargs)
            if isinstance(result, CoroutineType):
                result = self._async_runner.run(cast("Coroutine[Any, Any, Any]", result))
        return result

    def _perform_within(self, limits: Limits, job: JobContext, perform: Callable[[], object]) -> object:
        time_limits, unit = cast("TimeLimits", self._time_limits), cast("UnitOfWork", self._unit)

        def overran(error: HardTimeout, seconds: float) -> None:
            if self._overran is not None:
                self._overran(unit, Run(job, Failed(error), seconds, None))

        watched = time_limits.watch(job, limits, Reach(self.window, self._async_runner), overran)
        try:
            with self.window:
                result = perform()
                if isinstance(result, CoroutineType):
                    result = self._async_runner.run(cast("Coroutine[Any, Any, Any]", result), limited=True)
        finally:
            if not time_limits.end(watched):
                unit.settled = True  # without this thread, which has come back after all
        return result


def _asked_for(signal: Reschedule | Discard | Skip | MovedAway) -> Outcome:
    match signal:
        case Reschedule():
            return Rescheduled(signal.seconds, signal.reason)
        case Discard():
            return Discarded(signal)
        case Skip():
            return Skipped(signal.reason)
        case MovedAway():
            return Moved(signal.place)
