"""Durable steps: the result of each is stored, so that a later run of the job does not repeat it.

1. The first step of a run reads all results of the job. A step with a stored result returns it.
2. A step whose process dies between its end and the store runs again: its `Step.key` is for idempotency keys of others.
3. Only the process that owns the job stores a result.
4. A wait ends the run. The job waits in the schedule, and no thread is held.
5. The steps live as long as the job: a job that an operator retries from the dead set does not repeat them.
6. Outside of a worker, in tests for example, every step runs, and nothing is stored.
7. Each run gets a result as JSON returns it, also the one that stores it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from offsider.client.times import RELATIVE_BELOW, due_at
from offsider.core.arguments import encode_result
from offsider.core.clock import as_seconds
from offsider.core.errors import (
    InvalidArguments,
    InvalidJob,
    InvalidOptions,
    NoCurrentJob,
    RedisUnavailable,
    RunInterrupted,
    SignalTimeout,
    Skip,
    Waiting,
)
from offsider.core.payload import not_stranded
from offsider.jobs.clients import client_for
from offsider.runtime.context import JobContext, current_job
from offsider.runtime.outage import RETRY_SECONDS, Outage
from offsider.storage import steps
from offsider.storage.steps import SignalWait, StepsSeen, StoredStep

if TYPE_CHECKING:
    from offsider.config.hooks import Encrypts

P = ParamSpec("P")
T = TypeVar("T")
#: Maximum size of a result as JSON, and number of steps of a job: each run reads all of them.
MAX_RESULT_BYTES, MAX_STEPS = 262_144, 10_000
_key: ContextVar[str] = ContextVar("offsider_step", default="")


class Step:
    """Runs functions as durable steps; its only object is `offsider.step`."""

    @property
    def key(self) -> str:
        """``<jid>:<name>`` of the running step, the same in each run. Raises NoCurrentJob outside of a step."""
        if not (key := _key.get()):
            raise NoCurrentJob("step.key: no step is running here")
        return key

    def __call__(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a function, which is called once for all runs of the job.

        ::

            @job(retry=5)
            def fulfil(order_id: int) -> None:
                charge = step("charge", pay, order_id)
                label = step("label", print_label, order_id, charge)

        The result is stored before `step` returns. It must be JSON; with ``codec="annotations"``, it may be of each
        type that an argument of the job may have, and needs a return annotation.

        Raises:
            InvalidJob: the run has had a step of this name, or another function of this name has stored the result.
            InvalidArguments: JSON cannot store the result.
            RunInterrupted: the worker stops before the result is stored, or another process owns the job.
        """
        run = _RunSteps.of(current_job())
        run.read()
        if not run.begin(name):
            with run.running(name):
                began = time.perf_counter()
                result = function(*args, **kwargs)
                run.keep(name, function, result, time.perf_counter() - began)
        return cast("T", run.stored(name, function))


step = Step()
"""Runs a function as a durable step: ``step("charge", pay, order_id)``; see `Step`."""


async def astep(name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """As `step`, for a coroutine function."""
    run, threads = _RunSteps.of(current_job()), client_for().installation.loop_threads
    await threads.run(run.read)
    if not run.begin(name):
        with run.running(name):
            began = time.perf_counter()
            result = await function(*args, **kwargs)
            seconds = time.perf_counter() - began
            await threads.run(lambda: run.keep(name, function, result, seconds))
    return cast("T", run.stored(name, function))


def sleep_until(when: datetime | float) -> None:
    """End the run until a time, unless it has come. The job then runs again from its beginning, and skips its steps.

    Args:
        when: an aware datetime or epoch seconds, the same in each run: ``step("due", tomorrow)``, for example.

    Raises:
        InvalidOptions: a datetime without a time zone, or not a time.
        InvalidJob: a step of the run still runs.
        NoCurrentJob: no job is running here.
    """
    job = current_job()
    now = client_for().installation.config.clock.now()
    if not isinstance(when, datetime) and when < RELATIVE_BELOW:
        raise InvalidOptions(f"sleep_until takes an aware datetime or epoch seconds, got {when!r}")
    at = due_at(when, now)
    if at is not None:
        if job.steps is not None:
            job.steps.check_idle()
        raise Waiting(at - now, "sleeps")


def wait_for(name: str, *, timeout: float | timedelta) -> Any:
    """Return the value of a signal; without one, end the run until it comes. See `sleep_until` for what runs again.

    ::

        @job
        def order(order_id: int) -> None:
            step("invoice", send_invoice, order_id)
            paid = wait_for("paid", timeout=timedelta(days=14))
            step("ship", ship, order_id, paid)

        signal(jid, "paid", {"cents": 4_900})

    Args:
        name: name of the signal; see `signal`.
        timeout: seconds or a timedelta, from the first wait for this signal.

    Raises:
        SignalTimeout: it has not come in time.
        InvalidJob: no worker runs this job.
    """
    run = _RunSteps.of(current_job())
    run.read()
    return run.signal(name, as_seconds(timeout, "timeout of wait_for"))


async def await_for(name: str, *, timeout: float | timedelta) -> Any:  # noqa: ASYNC109 - not a limit of this call
    """As `wait_for`, without blocking the event loop."""
    run = _RunSteps.of(current_job())
    await client_for().installation.loop_threads.run(run.read)
    return run.signal(name, as_seconds(timeout, "timeout of wait_for"))


def signal(jid: str, name: str, value: Any = None) -> bool:
    """Give a job a signal, which may come before the job waits for it. It is kept as long as the job, and without one
    as long as a job of the dead set.

    Args:
        jid: id of the job.
        name: name of the signal.
        value: JSON; `wait_for` returns it.

    Returns:
        False if the job has a signal of this name: the first one counts.

    Raises:
        InvalidArguments: JSON cannot store the value.
        RedisFailure: it may not be stored.
    """
    client = client_for()
    _check_name(name, "signal: the name")
    try:
        text = encode_result(value, MAX_RESULT_BYTES, "the limit of a signal").decode()
    except ValueError as error:
        raise InvalidArguments(f"signal {name!r}: JSON cannot store its value: {error}") from error
    return steps.signal(client.redis, jid, name, text, client.installation.config.worker.dead_timeout_seconds)


async def asignal(jid: str, name: str, value: Any = None) -> bool:
    """As `signal`, without blocking the event loop."""
    return await client_for().installation.loop_threads.run(lambda: signal(jid, name, value))


class _RunSteps:
    """The steps of one run."""

    def __init__(self, job: JobContext) -> None:
        self.job = job
        self._names: set[str] = set()
        self._under_way: set[str] = set()
        self._seen = StepsSeen()
        self._wait: SignalWait | None = None
        self._lock, self._is_read = Lock(), not job.process
        self._encryption: Encrypts | None = None
        client = client_for()
        config = client.installation.config
        self._clock = config.clock
        if job.process:
            self._redis, self._life_seconds = client.redis, config.worker.dead_timeout_seconds
            self._outage = Outage("storing steps", config)
            self._encryption = config.encryption if job.payload.get("encrypt") else None
            job.effects += (steps.keeping(self._redis.keys, job.jid, self._life, lambda: self._wait),)

    def read(self) -> None:
        """Read the stored steps, once: those of a coroutine may begin at the same time."""
        with self._lock:
            if not self._is_read:
                try:
                    self._seen = steps.read(self._redis, self.job.jid)
                except RedisUnavailable as error:
                    raise RunInterrupted("the server cannot be reached") from error
                self._is_read = True

    @contextmanager
    def running(self, name: str) -> Generator[None, None, None]:
        """Run a step inside of the block."""
        token = _key.set(f"{self.job.jid}:{name}")
        self._under_way.add(name)
        try:
            yield
        finally:
            self._under_way.discard(name)
            _key.reset(token)

    @classmethod
    def of(cls, job: JobContext) -> _RunSteps:
        if job.steps is None:
            job.steps = cls(job)
        found: _RunSteps = job.steps
        return found

    def begin(self, name: str) -> bool:
        """Begin a step; return whether its result is stored."""
        self._note(name, "step")
        if name in self._seen.steps:
            return True
        if len(self._names) > MAX_STEPS:
            raise InvalidJob(f"{self.job.name}: a job has at most {MAX_STEPS:,} steps; enqueue a job for each part")
        if self.job.cancelled:
            raise Skip("cancelled")
        if self.job.stopping:
            raise RunInterrupted(f"before the step {name!r}")
        if self._wait is not None:
            raise self._waiting(self._wait)
        return False

    def stored(self, name: str, function: Callable[..., Any]) -> Any:
        stored = self._seen.steps[name]
        if stored.function != _name_of(function):
            raise InvalidJob(
                f"{self.job.name}: the result of the step {name!r} is that of {stored.function}, and not of "
                f"{_name_of(function)}: give the step another name"
            )
        codec, value = self._codec(function), stored.value
        if self._encryption is not None:
            value = self._encryption.open_value(value, {"jid": self.job.jid}, f"step {name}")
        return value if codec is None else codec.decode(value)

    def keep(self, name: str, function: Callable[..., Any], result: Any, seconds: float) -> None:
        """Store a result, until the server takes it or the worker stops."""
        codec = self._codec(function)
        value = result if codec is None else codec.encode(result)
        try:  # a tuple is a list in all runs, and not only in later ones
            value = json.loads(encode_result(value, MAX_RESULT_BYTES, "the limit of a step"))
        except ValueError as error:
            raise InvalidArguments(
                f"{self.job.name}: JSON cannot store the result of the step {name!r}: {error}"
            ) from error
        if self._encryption is not None:
            value = self._encryption.seal_value(value, {"jid": self.job.jid}, f"step {name}")
        step = self._seen.steps[name] = StoredStep(value, _name_of(function), self._clock.now(), round(seconds, 3))
        job = self.job
        while job.process:
            try:
                entry, life = job.entry or job.process, self._life_seconds
                if steps.store(self._redis, job.jid, entry, name, step, life_seconds=life):
                    self._outage.over()
                    return
                raise RunInterrupted("another process owns the job")
            except RedisUnavailable as error:
                self._outage.noticed(error)
                if self.job.stopping:
                    raise RunInterrupted(f"the result of the step {name!r} is not stored") from error
            time.sleep(RETRY_SECONDS)

    def signal(self, name: str, timeout_seconds: float) -> Any:
        self._note(name, "wait for the signal")
        if name in self._seen.signals:
            return self._seen.signals[name]
        self.check_idle()
        if self._wait is not None:  # that of another task; the next run comes to this
            raise self._waiting(self._wait)
        if not self.job.process:
            raise InvalidJob(f"{self.job.name}: no worker runs this job, so the signal {name!r} cannot come")
        now = self._clock.now()
        until = self._seen.until.get(name, now + timeout_seconds)
        if now >= until:
            raise SignalTimeout(f"{self.job.name}: the signal {name!r} has not come in time")
        self._wait = SignalWait(name, not_stranded(self.job.raw), until)
        raise self._waiting(self._wait)

    def check_idle(self) -> None:
        """Refuse a wait while a step runs: the run would end, and its next one repeat the step."""
        if self._under_way:
            raise InvalidJob(f"{self.job.name}: a wait while the step {min(self._under_way)!r} runs; wait after it")

    def _waiting(self, wait: SignalWait) -> Waiting:
        return Waiting(max(0.0, wait.until - self._clock.now()), f"waits for the signal {wait.name!r}")

    def _life(self) -> float:
        return self._life_seconds + self.job.again_in_seconds

    def _note(self, name: str, what: str) -> None:
        _check_name(name, f"{self.job.name}: the name of a {what}")
        if (named := f"{what} {name!r}") in self._names:
            raise InvalidJob(f"{self.job.name}: this run has had the {named}; add a number to the name, for example")
        self._names.add(named)

    def _codec(self, function: Callable[..., Any]) -> Any:
        return None if self.job.declared is None else self.job.declared.result_codec(function)


def _check_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= 200 or "\n" in name:
        raise InvalidJob(f"{what} is a text of 1 to 200 letters, got {name!r:.50}")


def _name_of(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
