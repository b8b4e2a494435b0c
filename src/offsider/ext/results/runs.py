"""Runs in a worker: writes the state when a run begins and with its outcome, and stops cancelled runs.

1. The admission declares the effect that writes the state with the outcome, for jobs that run and for those that do
   not (expired, held back, deferred).
2. The outermost middleware writes ``running``, and learns whether the job was cancelled while it waited. It encodes the
   result for the effect, and turns the end of a cancelled run into `Skip`: such a job is not retried.
3. The service listens for cancellations, and writes progress once per second, for all running jobs together.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from offsider.config import test_mode
from offsider.core.arguments import encode_result
from offsider.core.errors import Discard, OffsiderError, RedisFailure, Reschedule, Skip, Waiting
from offsider.core.outcome import Discarded, Failed, Skipped, Succeeded
from offsider.ext.results import store
from offsider.ext.results.control import ResultsControl
from offsider.ext.results.subscriber import Subscriber
from offsider.runtime.service import Loop

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.config.installation import Installation
    from offsider.core.outcome import Destination, Outcome
    from offsider.ext.results.store import ResultSettings
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Middleware
    from offsider.storage.scripts import Argument

PROGRESS_SECONDS = 1.0
IDLE_SECONDS = 3600.0
#: A job that this process has claimed, but not begun, is cancelled at its start if the request is not older.
REMEMBERED_SECONDS = 60.0
MAX_REMEMBERED = 1_000


class ResultNotStored(OffsiderError):
    """A job has succeeded, but its result cannot be stored. Passed to error handlers, never raised."""


class ResultRuns:
    """The running jobs of this process.

    Args:
        server: the worker's server.
        rules: the settings of the extension.
    """

    def __init__(self, server: Installation, rules: ResultSettings) -> None:
        self._server = server
        self._rules = rules
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._running: dict[str, ResultsControl] = {}
        self._requests: OrderedDict[str, float] = OrderedDict()
        self._dirty: set[ResultsControl] = set()
        self._service: RunsService | None = None
        self._next_write = 0.0

    # The chain

    def admit(self, job: JobContext) -> Middleware:
        """Admission: declare the effect that writes the state with the outcome."""
        kept_seconds = self._rules.kept_seconds(job.payload) if job.process and job.jid else None
        if kept_seconds is not None:
            control = self._control(job, kept_seconds)
            job.control = control
            job.effects += (store.settling(self._server.redis.keys, job.jid, job.shown_name, self._arguments(control)),)
        yield

    def run(self, job: JobContext) -> Middleware:
        """Middleware: write that the job runs, and stop it if it is cancelled."""
        if not job.process or not job.jid:
            if test_mode.current() is None:
                yield
            else:
                yield from self._run_in_memory(job)
            return
        control = job.control
        if not isinstance(control, ResultsControl):  # an untracked job can be cancelled too
            control = job.control = self._control(job, None)
        job.wrap_coroutine(control.around)
        if control.kept_seconds is not None:
            self._begin(control)
        self._enter(control)
        try:
            result = yield
        except BaseException as error:
            if control.requested:
                raise Skip("cancelled") from error
            raise
        finally:
            self._leave(control)
        if control.was_stopped:
            raise Skip("cancelled")
        if control.kept_seconds is not None:
            self._keep(control, result)

    def _run_in_memory(self, job: JobContext) -> Middleware:
        """Run a job in a test mode, which keeps its state."""
        kept_seconds = self._rules.kept_seconds(job.payload) if job.jid else None
        if kept_seconds is None:
            yield
            return
        now = self._server.config.clock.now()
        control = job.control = ResultsControl(job, kept_seconds, "", lambda _: None)
        control.began_at, control.started_at = time.perf_counter(), now
        try:
            result = yield
        except (Reschedule, Waiting):
            raise
        except BaseException as error:
            self._remember(control, _outcome_of(error))
            raise
        self._keep(control, result)
        self._remember(control, Succeeded())

    def _remember(self, control: ResultsControl, outcome: Outcome) -> None:
        goes: Destination = "dead" if isinstance(outcome, Failed) else "gone"  # a test mode does not retry
        ended = control.settled(outcome, goes, self._rules, self._server.config.clock.now())
        test_mode.states.setdefault(control.job.jid, {}).update(ended.in_memory(control.job.shown_name))

    def _control(self, job: JobContext, kept_seconds: float | None) -> ResultsControl:
        return ResultsControl(job, kept_seconds, f"{job.process} {next(self._numbers)}", self._note)

    def _begin(self, control: ResultsControl) -> None:
        job, now = control.job, self._server.config.clock.now()
        control.began_at, control.started_at = time.perf_counter(), now
        fields = {
            "state": "running",
            "class": job.shown_name,
            "at": repr(now),
            "began": repr(now),
            "process": job.process,
            "run": control.name,
        }
        try:
            may_run = store.begin(self._server.redis, job.jid, self._rules.keep_waiting_seconds, fields)
        except RedisFailure as error:  # the job can run, and its outcome will have a state
            self._server.config.handle_error(error, {"context": "storing the state of a job", "job": job.payload})
            return
        if not may_run:
            control.refuse()
            raise Skip("cancelled")

    def _enter(self, control: ResultsControl) -> None:
        jid = control.job.jid
        with self._lock:
            self._running[jid] = control
            requested_at = self._requests.pop(jid, None)
        if requested_at is not None and time.monotonic() - requested_at < REMEMBERED_SECONDS:
            control.refuse()
            self._leave(control)
            raise Skip("cancelled")

    def _leave(self, control: ResultsControl) -> None:
        control.end()
        with self._lock:
            self._dirty.discard(control)
            if self._running.get(control.job.jid) is control:
                del self._running[control.job.jid]

    def _keep(self, control: ResultsControl, result: object) -> None:
        """Encode the result for the effect. A result that cannot be stored does not fail the job, which has run."""
        job = control.job
        if not control.kept_seconds and result is not None:
            return
        try:
            control.result = encode_result(result, self._rules.result_max_bytes, "result_max_bytes")
            if job.payload.get("encrypt") and (encryption := self._server.config.encryption) is not None:
                control.result = json.dumps(encryption.seal_value(result, {"jid": job.jid}, "result")).encode()
        except ValueError as error:
            control.without_result = f"the result of the job cannot be stored: {error}"
            self._server.config.handle_error(
                ResultNotStored(f"{job.name}: {control.without_result}"),
                {"context": "storing the result of a job", "job": job.payload},
            )

    def _arguments(self, control: ResultsControl) -> Callable[[Outcome, Destination], Sequence[Argument] | None]:
        job, rules = control.job, self._rules
        keys, now = self._server.redis.keys, self._server.config.clock.now

        def arguments(outcome: Outcome, goes: Destination) -> Sequence[Argument] | None:
            return control.settled(outcome, goes, rules, now()).arguments(keys, job.jid, job.shown_name, rules)

        return arguments

    # Cancellations and progress

    def service(self, config: Config) -> RunsService:
        """Return the service of a worker."""
        self._service = RunsService(config, self._tick, Subscriber.of(self._server), self)
        return self._service

    def requested(self, message: bytes | None) -> None:
        """Stop the job of a cancellation; None: requests may have been missed."""
        if message is None:
            self._ask_again()
            return
        request = store.read_cancellation(message)
        if request is not None:
            jid, hard = request
            with self._lock:
                control = self._running.get(jid)
                if control is None:
                    self._requests[jid] = time.monotonic()
                    if len(self._requests) > MAX_REMEMBERED:
                        self._requests.popitem(last=False)
            if control is not None:
                control.request(hard=hard)

    def _ask_again(self) -> None:
        """Read whether a running job was cancelled while this process could not listen."""
        with self._lock:
            controls = [control for control in self._running.values() if control.kept_seconds is not None]
        redis = self._server.redis
        replies = redis.pipeline([store.read_command(redis.keys, control.job.jid) for control in controls])
        for control, reply in zip(controls, replies, strict=True):
            stored = store.parsed(control.job.jid, reply)
            if stored.cancel:
                control.request(hard=stored.hard)

    def _note(self, control: ResultsControl) -> None:
        with self._lock:
            is_first = not self._dirty
            self._dirty.add(control)
        if is_first and self._service is not None and time.monotonic() >= self._next_write:
            self._service.wake()

    def _tick(self) -> float:
        """Write the progress of all jobs that have reported some."""
        pause_seconds = self._next_write - time.monotonic()
        if pause_seconds > 0:
            return pause_seconds
        with self._lock:
            dirty, self._dirty = self._dirty, set()
        reports = [(control, control.latest) for control in dirty]
        if not reports:
            return IDLE_SECONDS
        self._next_write = time.monotonic() + PROGRESS_SECONDS
        keys = self._server.redis.keys
        self._server.redis.pipeline(
            [
                store.progress_command(keys, control.job.jid, control.name, latest)
                for control, latest in reports
                if latest is not None
            ]
        )
        return PROGRESS_SECONDS


def _outcome_of(error: BaseException) -> Outcome:
    if isinstance(error, Skip):
        return Skipped(error.reason)
    return Discarded(error) if isinstance(error, Discard) else Failed(error)


class RunsService(Loop):
    """Listens for cancellations until `join`, and writes progress until `stop`."""

    def __init__(self, config: Config, tick: Callable[[], float], subscriber: Subscriber, runs: ResultRuns) -> None:
        super().__init__("offsider-results", tick, config.handle_error)
        self._subscriber = subscriber
        self._runs = runs
        self._channel = store.cancel_channel(runs._server.redis.keys)  # noqa: SLF001 - the same module

    def start(self) -> None:
        self._subscriber.watch(self._channel, self._runs.requested)
        super().start()

    def join(self, timeout_seconds: float | None = None) -> bool:
        self._subscriber.unwatch(self._channel, self._runs.requested)
        return super().join(timeout_seconds)
