"""One run of one job, from its bytes to its outcome.

1. Decode and normalize the payload. A malformed payload ends here; a warning reports unusable values.
2. Enter the admissions: controls, stranded jobs, extensions, the expiry. One that returns an outcome before its
   ``yield`` keeps the job from starting, and one line is logged. The innermost one is the job log: it writes ``start``,
   and ``done`` or ``fail``.
3. Find the class; the registry knew it before step 2, by its name only. A class that it lacks is `UnknownJob`.
4. Enter the reloader, which does the setup and cleanup that a web framework does around each request, the server
   middleware, and the time limits.
5. `_perform` runs the job, in the only section in which a stop may interrupt the thread.
6. Leave what step 4 entered with the result or the error, which becomes the outcome; leave the admissions with it.

The executor writes nothing to Redis; admissions may. The fetcher writes the outcome.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from types import CoroutineType
from typing import TYPE_CHECKING, Any, cast

from offsider.config.installation import Installation
from offsider.core.compression import COMPRESSED, expand
from offsider.core.errors import (
    ConfigurationError,
    Discard,
    MalformedPayload,
    NoCapableWorker,
    RedisFailure,
    Reschedule,
    Skip,
    TooManyReschedules,
)
from offsider.core.normalize import ignored, normalize
from offsider.core.once import first_time
from offsider.core.outcome import (
    Discarded,
    Failed,
    Interrupted,
    Malformed,
    NotStarted,
    Outcome,
    Rescheduled,
    Skipped,
    Succeeded,
)
from offsider.core.payload import decode, expires_at, json_type
from offsider.inspector import removal
from offsider.jobs import registry
from offsider.logs.structured import about_here
from offsider.runtime.context import JobContext, enter_job, leave_job
from offsider.runtime.events import JobRemoved
from offsider.runtime.forks import came_back, check, here
from offsider.runtime.middleware import Middleware, MiddlewareChain
from offsider.storage import stats
from offsider.storage.keys import Keys
from offsider.worker.run.injection import Injection
from offsider.worker.run.interrupt import Window, caused_by_shutdown
from offsider.worker.run.time_limits import TimeLimit
from offsider.worker.unit_of_work import Run

if TYPE_CHECKING:
    from offsider.config.capsule import Capsule
    from offsider.config.config import Config
    from offsider.jobs.registry import Declared
    from offsider.worker.parts import WorkerParts
    from offsider.worker.run.async_runner import AsyncRunner
    from offsider.worker.run.job_logger import JobLogger
    from offsider.worker.run.time_limits import TimeLimits
    from offsider.worker.unit_of_work import UnitOfWork

logger = logging.getLogger("offsider")

#: Measuring CPU time takes two system calls per run, up to a tenth of the shortest runs. After a run shorter than
#: SHORT_SECONDS, the next SHORT_RUNS runs are not measured until one is longer, unless a listener needs each of them.
SHORT_SECONDS = 0.001
SHORT_RUNS = 15
#: A job that cannot be removed completely returns after this time.
REFUSED_SECONDS = 10.0

_SUCCEEDED = Succeeded()
_INTERRUPTED = Interrupted()
_EXPIRED = NotStarted("gone", name="expired")


class Executor:
    """Runs the jobs of one processor, one after the other.

    Args:
        parts: the objects that all processors of the worker share.
        capsule: the capsule; its server middleware runs around the job.
        job_logger: writes ``start``, ``done`` and ``fail``.
        async_runner: runs coroutines.
        overran: called with the unit and the run of a job that has failed because it still runs after its hard limit.
    """

    def __init__(
        self,
        parts: WorkerParts,
        capsule: Capsule,
        job_logger: JobLogger,
        async_runner: AsyncRunner,
        overran: Callable[[UnitOfWork, Run], None] | None = None,
    ) -> None:
        self._config = config = parts.config
        self._listened = config.events.listened
        #: Number of next runs whose CPU time is not measured.
        self._unmeasured = 0
        self._logger = job_logger
        self._async_runner = async_runner
        self._stopping = parts.stopping
        self._unit: UnitOfWork | None = None
        #: Outcome and duration of the current run, without the time for its log lines; None before it runs.
        self._ran: tuple[Outcome, float] | None = None
        self._cpu_seconds: float | None = None
        self.window = Window()
        self._injection = Injection(self.window, async_runner)
        self._admissions = MiddlewareChain[JobContext](
            (*parts.admissions, *config.admissions, _Expiry(config), job_logger)
        )
        limits = [] if parts.time_limits is None else [self._limit(parts.time_limits, overran)]
        reloader = [] if config.reloader is None else [config.reloader]
        self._middleware = MiddlewareChain[JobContext]((*reloader, *capsule.server_middleware, *limits))

    def _limit(self, time_limits: TimeLimits, overran: Callable[[UnitOfWork, Run], None] | None) -> TimeLimit:
        return TimeLimit(self._config, time_limits, self._injection, lambda: cast("UnitOfWork", self._unit), overran)

    def run(self, unit: UnitOfWork, started_at: float) -> Run:
        """Run one job. Never raises an error of the job.

        Args:
            started_at: now, in epoch seconds.
        """
        started = time.perf_counter()
        try:
            payload = decode(unit.raw)
            if COMPRESSED in payload:
                payload = expand(payload, unit.raw)
            known = normalize(payload)
        except MalformedPayload as error:
            return Run(None, Malformed(error), started_at, time.perf_counter() - started, None)
        job = JobContext(
            payload=known,
            queue=unit.queue,
            raw=unit.raw,
            declared=registry.peek(known["class"]),
            log={},  # the default is the result of a call
            is_stopping=self._stopping,
            owner=unit.owner,
            alone_in=unit.alone_in,
            reach=self._injection,
        )
        self._unit, self._cpu_seconds = unit, None
        token = enter_job(job)
        try:
            if known is not payload:
                _warn(job, ignored(payload, known))
            try:
                outcome: object = self._admissions.run(job, self._timed)
            except BaseException as error:  # noqa: BLE001 - an error of an admission is a failure of the job
                outcome = self._failed(job, error)
            if self._ran is None:
                refused = self._without_run(job, outcome)
                self._logger.instead_of_a_run(job, refused)
                self._ran = refused, time.perf_counter() - started
        finally:
            leave_job(token)
        ended, duration_seconds = self._ran
        self._unit = self._ran = None  # an idle thread keeps nothing of its last run
        return Run(job, ended, started_at, duration_seconds, self._cpu_seconds)

    def _failed(self, job: JobContext, error: BaseException) -> Outcome:
        if self._ran is not None:  # the job has ended, and keeps its outcome
            self._config.handle_error(error, {"context": "leaving an admission", "job": job.payload})
        return _INTERRUPTED if caused_by_shutdown(error) else Failed(error)

    def _without_run(self, job: JobContext, outcome: object) -> Outcome:
        """Add the effects of a removal that the admissions of extensions do not see."""
        if not isinstance(outcome, Outcome):
            got = type(outcome).__name__
            return Failed(ConfigurationError(f"an admission returned {got} before its yield; return an outcome"))
        error = outcome.error if isinstance(outcome, Failed) else None
        if outcome.name == "dropped":
            how = "quarantine" if isinstance(outcome, NotStarted) and outcome.place == "quarantine" else "delete"
        elif isinstance(error, NoCapableWorker):
            how = "kill"
        else:
            return outcome
        server = Installation.of(self._config)
        try:
            effects = removal.effects_of(server, JobRemoved(job.raw, f"queue:{job.queue}", how, server.name, error))
        except RedisFailure as failure:
            self._config.handle_error(failure, {"context": "collecting the effects of a removal", "job": job.payload})
            return Rescheduled(REFUSED_SECONDS, "cannot read what its removal affects")
        job.effects += tuple(effects)
        return outcome

    def _timed(self, job: JobContext) -> Outcome:
        """Run a job inside the middleware, and measure the run."""
        measured = not self._unmeasured
        cpu_started = time.thread_time() if measured else 0.0
        started = time.perf_counter()
        outcome: Outcome = _SUCCEEDED
        try:
            if job.declared is None:
                job.declared = registry.find(job.payload["class"])
            result = self._middleware.run(job, self._perform)
            if result is not None:
                job.result = result
        except (Reschedule, Discard, Skip) as signal:
            outcome = _asked_for(signal, job)
        except BaseException as error:  # noqa: BLE001 - a job's SystemExit must not end the worker's thread
            outcome = _INTERRUPTED if caused_by_shutdown(error) else Failed(error)
        if here.stray:  # middleware forked
            came_back(job.payload)
        duration_seconds = time.perf_counter() - started
        if measured:
            self._cpu_seconds = time.thread_time() - cpu_started
        if duration_seconds >= SHORT_SECONDS:
            self._unmeasured = 0
        elif not measured:
            self._unmeasured -= 1
        elif not self._listened("execution_finished"):
            self._unmeasured = SHORT_RUNS
        self._ran = outcome, duration_seconds
        return outcome

    def _perform(self, job: JobContext) -> object:
        declared: Declared = job.declared
        instance = declared.make(job)
        args, kwargs = job.payload["args"], job.payload.get("kwargs", {})
        declared.signature.check_fits(args, kwargs)
        with self.window:
            try:
                result = declared.perform(instance, args, kwargs)
                if isinstance(result, CoroutineType):
                    coroutine = job.wrapped(cast("Coroutine[Any, Any, Any]", result))
                    result = self._async_runner.run(coroutine, name=job.name, limited=job.ends_at is not None)
                if result is not None:
                    declared.check_ran(result)
            finally:
                check(job.payload)  # a forked child must exit before worker code or middleware runs in it
        return result


class _Expiry:
    """Entry that keeps expired jobs from starting."""

    def __init__(self, config: Config) -> None:
        self._clock, self._keys = config.clock, Keys(config.redis.prefix)

    def concerns(self, job: JobContext) -> bool:
        return "expiry" in job.payload or "expires_in" in job.payload

    def __call__(self, job: JobContext) -> Middleware:
        at = expires_at(job.payload)
        if at is not None and self._clock.now() >= at:
            job.effects += (stats.counting_expired(self._keys, job.name if job.declared is not None else ""),)
            return _EXPIRED
        yield


def _asked_for(signal: Reschedule | Discard | Skip, job: JobContext) -> Outcome:
    """Return the outcome of a run that raised Reschedule, Discard or Skip."""
    match signal:
        case Reschedule():
            # A deploy stops the worker and interrupts a long job: that must not count against the limit.
            if job.stopping:
                return Rescheduled(signal.seconds, signal.reason)
            if signal.limit is not None and job.rescheduled_count >= signal.limit:
                return Failed(TooManyReschedules(signal.limit))
            return Rescheduled(signal.seconds, signal.reason, counted=True, counter=signal.counter)
        case Discard():
            return Discarded(signal)
        case Skip():
            return Skipped(signal.reason)


def _warn(job: JobContext, keys: Sequence[str]) -> None:
    for key in keys:
        if first_time("ignored", job.name, key):
            logger.warning(
                "%s JID-%s: ignoring %r, because its value is %s (logged once per class)",
                job.name,
                job.jid,
                key,
                json_type(decode(job.raw).get(key)),
                extra={"fields": about_here(job)},
            )
