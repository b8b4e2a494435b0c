"""One run of one job, from its bytes to its outcome.

1. Decode and normalize the payload. A malformed payload ends here; a warning reports unusable values.
2. Enter the admissions: controls, stranded jobs, extensions, the expiry. One that returns an outcome before its
   ``yield`` keeps the job from starting, and one line is logged. The innermost one is the job log: it writes ``start``,
   and ``done`` or ``fail``.
3. Find the class; the registry knew it before step 2, by its name only. A class that it lacks is `UnknownJob`.
4. Enter the reloader, which does the setup and cleanup that a web framework does around each request, and the server
   middleware.
5. `_perform` runs the job, in the only section in which a stop may interrupt the thread. Time limits apply from there
   on. An isolated job runs in a child process (`isolated`). The coroutine of an ``async def`` job, which has waited for
   a seat before step 2, leaves the thread here.
6. Leave what step 4 entered with the result or the error, which becomes the outcome; leave the admissions with it. For
   a coroutine, `finish` does that in another thread.

The executor writes nothing to Redis; admissions may. The fetcher writes the outcome.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from offsider.config.installation import Installation
from offsider.core.compression import COMPRESSED, expand
from offsider.core.errors import (
    ConfigurationError,
    DecryptionFailed,
    Discard,
    InvalidJob,
    MalformedPayload,
    NoCapableWorker,
    RedisFailure,
    Reschedule,
    RunInterrupted,
    Shutdown,
    Skip,
    TooManyReschedules,
    Waiting,
)
from offsider.core.normalize import ignored, normalize
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
from offsider.core.wording import first_time
from offsider.inspector import removal
from offsider.jobs import registry
from offsider.logs.setup import job_level, thread_id
from offsider.logs.structured import about_running
from offsider.runtime.context import JobContext, enter_job
from offsider.runtime.events import JobRemoved
from offsider.runtime.forks import came_back, check_descriptors, this_process
from offsider.runtime.middleware import (
    Middleware,
    MiddlewareChain,
    caught,
    check_coroutine,
    leave,
    leave_by_error,
    thread_bound,
)
from offsider.storage import stats
from offsider.storage.keys import Keys
from offsider.worker.run import chunks
from offsider.worker.run.coroutine_run import CoroutineRun
from offsider.worker.run.interrupt import Injection, Window, caused_by
from offsider.worker.unit_of_work import Run

if TYPE_CHECKING:
    from offsider.config.capsule import Capsule
    from offsider.config.config import Config
    from offsider.jobs.registry import Declared
    from offsider.worker.parts import WorkerParts
    from offsider.worker.run.async_runner import AsyncRunner
    from offsider.worker.run.isolated import ChildRun
    from offsider.worker.run.job_logger import JobLogger
    from offsider.worker.unit_of_work import UnitOfWork

logger = logging.getLogger("offsider")

#: Measuring CPU time takes two system calls per run, up to a tenth of the shortest runs. After a run shorter than
#: SHORT_SECONDS, the next SHORT_RUNS runs are not measured until one is longer, unless a listener needs each of them.
SHORT_SECONDS = 0.001
SHORT_RUNS = 15
#: A job that closes the worker's descriptors takes longer. The check for it is a system call, which would take a no-op
#: a twentieth of its time.
CLOSING_SECONDS = 0.000_005
#: A job that cannot be removed completely returns after this time.
REFUSED_SECONDS = 10.0

#: `leave` or `leave_by_error`.
Leaving: TypeAlias = Callable[[list[Middleware], Any], Any]

_SUCCEEDED = Succeeded()
_INTERRUPTED, _NOT_STARTED, _CONTINUES = Interrupted(), Interrupted(has_started=False), Interrupted(continues=True)
_EXPIRED = NotStarted("gone", name="expired")


class Executor:
    """Runs the jobs of one processor. It starts one after the other; any thread may `finish` a coroutine.

    Args:
        parts: the objects that all processors of the worker share.
        capsule: the capsule; its server middleware runs around the job.
        job_logger: writes ``start``, ``done`` and ``fail``.
        async_runner: has the seats of coroutines.
        overran: called with the unit and the run of a job that has failed because it still runs after its hard limit.
    """

    def __init__(
        self,
        parts: WorkerParts,
        capsule: Capsule,
        job_logger: JobLogger,
        async_runner: AsyncRunner,
        overran: Callable[[UnitOfWork, Run], None],
    ) -> None:
        self._config = config = parts.config
        self._children, self._capsule = parts.children, capsule.name
        self._isolates = capsule.settings.isolated
        self._listened = config.events.listened
        #: Number of next runs whose CPU time is not measured.
        self._unmeasured = 0
        self._logger = job_logger
        self._async_runner = async_runner
        self._stopping = parts.stopping
        self._work_state = parts.work_state
        self._time_limits = parts.time_limits
        self._overran = overran
        self.window = Window()
        #: The run of an isolated job.
        self.child_run: ChildRun | None = None
        self._injection = Injection(self.window)
        self._admissions = MiddlewareChain[JobContext](
            (*parts.admissions, *config.admissions, _Options(config), job_logger)
        )
        reloader = [] if config.reloader is None else [config.reloader]
        self._middleware = MiddlewareChain[JobContext]((*reloader, *capsule.server_middleware))
        self._thread_bound = [*thread_bound(self._admissions), *thread_bound(self._middleware)]

    def run(self, unit: UnitOfWork, started_at: float) -> Run:
        """Run one job; never raises an error of the job. If the run has a coroutine, its end calls for `finish`.

        A member of a chunk does not start: see `start_member`.

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
        declared = registry.peek(known["class"])
        job = JobContext(  # by position: keywords would take longer than all of the rest; `log` has a default to call
            known, unit.queue, unit.raw, declared, {}, self._stopping, unit.owner, unit.alone_in, self._injection
        )
        run = Run(job, _SUCCEEDED, started_at, 0.0, None)
        enter_job(job)
        if known is not payload:
            _warn(job, ignored(payload, known))
        if declared is not None and declared.chunk:
            run.coroutine = chunks.WAITING
            return run
        is_async = declared is not None and declared.is_async
        if not is_async or self.take_seat(run, job, unit):
            try:
                self._start(run, job, unit, started)
            finally:
                if is_async and run.coroutine is None:
                    self._async_runner.leave_seat()
            if run.coroutine is not None:
                return run
        enter_job(None)
        return run

    def start_member(self, unit: UnitOfWork, run: Run) -> None:
        """Enter the middleware of a member of a chunk, in its context; the run has no coroutine if it has ended."""
        run.coroutine = None
        if run.job is not None:
            self._start(run, run.job, unit, time.perf_counter())
            if run.coroutine is None:
                enter_job(None)

    def perform_chunk(self, members: Sequence[chunks.WaitingMember]) -> chunks.CoroutineChunk | BaseException | None:
        """Run the function of a chunk in this thread; return the error that it raised, or its coroutine."""
        return chunks.perform(members, self.window, self._time_limits, self._overran, self._async_runner.running)

    def finish(self, run: Run) -> None:
        """Leave the middleware of a run whose coroutine has ended, in the context of the run. Never raises."""
        job, coroutine, run.coroutine = run.job, run.coroutine, None
        if job is None or coroutine is None:
            return
        check_descriptors()
        error = coroutine.error
        if error is None:
            try:
                job.declared.check_ran(coroutine.result)
            except BaseException as raised:  # noqa: BLE001 - a failure of the job
                error = raised
        if error is None:
            self._end(run, job, leave, coroutine.result)
        else:
            self._end(run, job, leave_by_error, error)
        coroutine.result = coroutine.error = None  # frames of the job often refer to its task, and so to the coroutine
        enter_job(None)

    def take_seat(self, run: Run, job: JobContext, unit: UnitOfWork) -> bool:
        """Wait for the seat of a coroutine, which does not run until then; False if it gets none."""
        self._work_state.end(unit)
        try:
            if not self._async_runner.take_seat():
                run.outcome = _NOT_STARTED
                return False
        except (OSError, RuntimeError) as error:  # the system has no more threads or descriptors
            self._config.handle_error(error, {"context": "starting the event loop of async jobs", "job": job.payload})
            run.outcome = Rescheduled(REFUSED_SECONDS, "cannot start the event loop")
            return False
        run.started_at = self._config.clock.now()
        self._work_state.begin(thread_id(), unit, run.started_at)
        return True

    def _start(self, run: Run, job: JobContext, unit: UnitOfWork, started: float) -> None:
        """Enter the admissions, then the middleware, and run the job; leave them again unless it is a coroutine."""
        run.admitted, run.entered = [], []
        try:
            returned = self._admissions.enter(job, run.admitted)
        except BaseException as error:  # noqa: BLE001 - an error of an admission is a failure of the job
            self._refuse(run, job, started, leave_by_error, caught(error))
            return
        if returned is not None:
            self._refuse(run, job, started, leave, returned.value)
            return
        cpu_started = None
        if self._unmeasured:
            self._unmeasured -= 1
        else:
            cpu_started = time.thread_time()
        run.begun = time.perf_counter()
        try:
            if job.declared is None:
                job.declared = registry.find(job.payload["class"])
            returned = self._middleware.enter(job, run.entered)
            result = self._perform(run, job, unit) if returned is None else returned.value
        except BaseException as error:  # noqa: BLE001 - a job's SystemExit must not end the worker's thread
            self._end(run, job, leave_by_error, caught(error), cpu_started)
        else:
            if run.coroutine is None:
                self._end(run, job, leave, result, cpu_started)

    def _perform(self, run: Run, job: JobContext, unit: UnitOfWork) -> object:
        declared: Declared = job.declared
        if declared.chunk:
            run.coroutine = self._member(job, declared)
            return None
        if declared.isolated or self._isolates:
            return self._perform_isolated(run, job, unit)
        instance = declared.make(job)
        args, kwargs = job.payload["args"], job.payload.get("kwargs", {})
        declared.signature.check_fits(args, kwargs)
        limits = self._time_limits
        end_watch = None if limits is None else limits.enforce(job, unit, self._overran)
        try:
            with self.window:
                try:
                    result: object = declared.perform(instance, args, kwargs)
                    is_coroutine = isinstance(result, CoroutineType)
                    if result is not None and not is_coroutine:
                        declared.check_ran(result)
                finally:
                    if this_process.stray:  # the child must exit before worker code or middleware runs in it
                        came_back(job.payload)
                    if time.perf_counter() - run.begun >= CLOSING_SECONDS:  # before middleware uses a socket
                        check_descriptors()
            if not is_coroutine:
                return result
            if not declared.is_async and end_watch is not None:  # its limits do not count the wait for a seat
                ended, end_watch = end_watch, None
                ended()
            wrapped = self._wrapped(job, cast("Coroutine[Any, Any, Any]", result))
            if not declared.is_async and limits is not None:
                end_watch = limits.enforce(job, unit, self._overran)
            # The processor starts it, outside of the context of the run.
            run.coroutine = job.reach = CoroutineRun(wrapped, end_watch)
            return None
        finally:
            if end_watch is not None and run.coroutine is None:
                end_watch()

    def _member(self, job: JobContext, declared: Declared) -> Any:
        if self._isolates:
            raise InvalidJob(f"{job.name} runs in chunks, and jobs of the isolated capsule {self._capsule} cannot")
        if declared.is_async and self._thread_bound:
            check_coroutine(self._thread_bound, job)
        return chunks.Member(declared.call_of(job))

    def _perform_isolated(self, run: Run, job: JobContext, unit: UnitOfWork) -> object:
        """Run the job in a child, outside of the window: nothing may be raised in this thread, which attends to it."""
        if self._children is None:
            raise ConfigurationError(f"{job.name} is isolated: only a worker that `offsider worker` starts can run it")
        if job.declared.is_async:
            raise InvalidJob(f"{job.name} is async def, and jobs of the isolated capsule {self._capsule} cannot be")
        job.declared.signature.check_fits(job.payload["args"], job.payload.get("kwargs", {}))
        self.child_run = job.reach = self._children.begin(job, self._capsule)
        end_watch = None if self._time_limits is None else self._time_limits.enforce(job, unit, self._overran)
        try:
            return self.child_run.result()
        finally:
            run.cpu_seconds, self.child_run = self.child_run.cpu_seconds, None
            if end_watch is not None:
                end_watch()

    def _wrapped(self, job: JobContext, coroutine: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of a job in its wrappers; that of a plain function takes a seat."""
        if self._thread_bound:
            check_coroutine(self._thread_bound, job, coroutine)
        wrapped = coroutine
        try:
            wrapped = job.wrapped(coroutine)
            if this_process.stray:  # a wrapper forked
                came_back(job.payload)
            if not job.declared.is_async:
                self._async_runner.take_seat()
        except BaseException:
            coroutine.close()
            wrapped.close()
            raise
        return wrapped

    def _end(
        self, run: Run, job: JobContext, leaving: Leaving, ended: object, cpu_started: float | None = None
    ) -> None:
        """Leave the middleware with the result or the error of the job, then the admissions with the outcome."""
        try:
            result = leaving(run.entered, ended)
            if result is not None:
                job.result = result
        except (Reschedule, Discard, Skip) as signal:
            run.outcome = _asked_for(signal, job)
        except BaseException as error:  # noqa: BLE001 - the outcome of the run
            run.outcome = _outcome_of(error)
        if this_process.stray:  # middleware forked
            came_back(job.payload)
        run.duration_seconds = time.perf_counter() - run.begun
        if cpu_started is not None:
            run.cpu_seconds = time.thread_time() - cpu_started + (run.cpu_seconds or 0.0)
            if run.duration_seconds < SHORT_SECONDS and not self._listened("execution_finished"):
                self._unmeasured = SHORT_RUNS
        elif run.duration_seconds >= SHORT_SECONDS:
            self._unmeasured = 0
        if run.admitted:
            try:
                leave(run.admitted, run.outcome)
            except BaseException as error:  # noqa: BLE001 - the job has ended, and keeps its outcome
                self._config.handle_error(error, {"context": "leaving an admission", "job": job.payload})

    def _refuse(self, run: Run, job: JobContext, started: float, leaving: Leaving, ended: object) -> None:
        """Leave the admissions with what one of them returned or raised; the job does not start."""
        try:
            outcome = leaving(run.admitted, ended)
        except BaseException as error:  # noqa: BLE001 - a failure of the job
            outcome = _outcome_of(error)
        run.outcome = self._without_run(job, outcome)
        self._logger.instead_of_a_run(job, run.outcome)
        run.duration_seconds = time.perf_counter() - started

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


class _Options:
    """Entry that keeps expired jobs from starting, and applies the log level of a payload."""

    def __init__(self, config: Config) -> None:
        self._clock, self._keys, self._config = config.clock, Keys(config.redis.prefix), config

    def concerns(self, job: JobContext) -> bool:
        payload = job.payload
        return "expiry" in payload or "expires_in" in payload or "log_level" in payload or "encrypt" in payload

    def __call__(self, job: JobContext) -> Middleware:
        at = expires_at(job.payload)
        if at is not None and self._clock.now() >= at:
            job.effects += (stats.counting_expired(self._keys, job.name if job.declared is not None else ""),)
            return _EXPIRED
        if job.payload.get("encrypt") and self._config.encryption is None:
            raise DecryptionFailed(f"{job.name}: the job is encrypted, and this worker has no extension Encryption")
        with job_level(job.payload.get("log_level")):
            yield


def _outcome_of(error: BaseException) -> Outcome:
    if caused_by(Shutdown, error):
        if (wait := caused_by(Waiting, error)) is not None:
            return Rescheduled(wait.seconds, wait.reason)
        return _CONTINUES if caused_by(RunInterrupted, error) else _INTERRUPTED
    return Failed(error)


def _asked_for(signal: Reschedule | Discard | Skip, job: JobContext) -> Outcome:
    """Return the outcome of a run that raised Reschedule, Discard or Skip."""
    match signal:
        case Reschedule():
            # A deploy stops the worker and interrupts a long job: that must not count against the limit.
            if job.stopping or signal.counter is None:
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
                extra={"fields": about_running(job)},
            )
