"""The only global state: the job that the current thread or asyncio task runs."""

from __future__ import annotations

import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from offsider.core.errors import InvalidArguments, InvalidOptions, NoCurrentJob, OffsiderError
from offsider.core.payload import JobPayload, shown_class
from offsider.storage.working import Owner, PrivateListEntry

if TYPE_CHECKING:
    from types import FrameType

    from offsider.storage.attempts import LogLine
    from offsider.storage.effects import Effect


#: Takes the coroutine of a job and returns one that awaits it.
CoroutineWrapper: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]]


class Reach(Protocol):
    """Raises errors in one running job: `Injection` in its thread, `CoroutineRun` in its coroutine, `ChildRun` in its
    process.
    """

    def aim(self, kind: type[OffsiderError], message: str, landed: Callable[[], None]) -> bool:
        """Raise ``kind(message)`` in the job as soon as Python allows it, and call ``landed`` when it is raised."""
        ...

    def kill(self, error: OffsiderError) -> bool:
        """End the run, which fails with ``error``; False if only its process could be killed."""
        ...

    def place(self) -> str:
        """Return the line that the job executes; empty if it has ended."""
        ...

    def frames(self) -> Sequence[FrameType]:
        """Return the frames of the job, outermost first; none if it has ended."""
        ...


class RunControl(Protocol):
    """What an extension knows about a run: `JobContext.cancelled` and `JobContext.progress` ask it."""

    def asked_to_stop(self) -> bool:
        """Return whether the job was cancelled. Called by the job."""
        ...

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Note the progress of the job. Called by the job, also on an event loop: must not block."""
        ...


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # an int beyond the range of floats
        return False


def _never() -> bool:
    return False


def _no_fields() -> dict[str, object]:
    return {}  # `dict[str, object]()` takes five times as long


_MEASURED_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MAX_MEASURED = 50
_NOTHING_MEASURED: Mapping[str, float] = MappingProxyType({})
_spending = threading.Lock()  # shared by all jobs: held only for one addition


@dataclass
class JobContext:
    """One run of one job, as server middleware and the job itself see it.

    Attributes:
        payload: the decoded payload. Middleware may change it; the stored payload is `raw`.
        queue: the queue that the job was fetched from.
        raw: the bytes that Redis stores.
        declared: the registered job, a `Declared`; None if its class is not registered.
        log: fields added to the log lines of this run: ``current_job().log["rows"] = 7``.
        bound: fields that `bind_context` added inside this run.
        ends_at: end of the time limit in seconds of the monotonic clock; None without a limit. Read it through
            `deadline` and `time_left_seconds`.
        owner: owner of the private list that has the job; None if it is in no private list, as with the basic fetcher.
        alone_in: identity of the process that runs a job which is in no private list; empty for other jobs. Read it
            through `process`.
        effects: scripts of extensions that run atomically with the script that stores the outcome; extensions add
            them during the run.
        control: lets an extension cancel the run and note its progress; None without one.
        result: what the job returned; None before.
        log_lines: the last lines that the application wrote to the log during the run; None without any.
        wrappers: what `wrap_coroutine` has added.
        is_stopping: returns whether the worker is stopping; read it through `stopping`.
        reach: raises errors in the running job, in its thread or in its coroutine; None outside of a worker.
        iterates: the run can end between two elements of an iteration; None before it, False after it.
        must_yield: it shall do so, because it has reached its soft time limit.
        steps: the durable steps of the run; None before the first one.
        again_in_seconds: time until the next run, when `effects` are collected; 0 if there is none, or at once.
    """

    payload: JobPayload
    queue: str
    raw: bytes = b""
    declared: Any = None
    log: dict[str, object] = field(default_factory=_no_fields)
    is_stopping: Callable[[], bool] = field(default=_never, repr=False, compare=False)
    owner: Owner | None = field(default=None, repr=False, compare=False)
    alone_in: str = field(default="", repr=False, compare=False)
    reach: Reach | None = field(default=None, repr=False, compare=False)
    # Attributes of the class until a run sets them: assigning each of them would take a tenth of a no-op's time.
    ends_at: float | None = field(default=None, init=False, repr=False, compare=False)
    bound: dict[str, str | int | float | bool | None] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    control: RunControl | None = field(default=None, init=False, repr=False, compare=False)
    effects: tuple[Effect, ...] = field(default=(), init=False, repr=False, compare=False)
    result: object = field(default=None, init=False, repr=False, compare=False)
    iterates: bool | None = field(default=None, init=False, repr=False, compare=False)
    must_yield: bool = field(default=False, init=False, repr=False, compare=False)
    steps: Any = field(default=None, init=False, repr=False, compare=False)
    again_in_seconds: float = field(default=0.0, init=False, repr=False, compare=False)
    log_lines: deque[LogLine] | None = field(default=None, init=False, repr=False, compare=False)
    _spent: dict[str, float] | None = field(default=None, init=False, repr=False, compare=False)
    wrappers: tuple[CoroutineWrapper, ...] = field(default=(), init=False, repr=False, compare=False)

    @property
    def jid(self) -> str:
        """The job's id, 24 hex digits; empty for a foreign payload that has none yet."""
        return self.payload.get("jid", "")

    @property
    def name(self) -> str:
        """The stored name of the job."""
        return self.payload.get("class", "")

    @property
    def shown_name(self) -> str:
        """The name for logs and pages: for an Active Job, the wrapped class."""
        return shown_class(self.payload)

    @property
    def args(self) -> Sequence[Any]:
        """Positional arguments, as stored."""
        return self.payload.get("args", ())

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword-only arguments."""
        return self.payload.get("kwargs") or {}

    @property
    def retry_count(self) -> int | None:
        """None in the first run, 0 in the first retry, and so on: Sidekiq's count."""
        return self.payload.get("retry_count")

    @property
    def attempt(self) -> int:
        """1 in the first run, 2 in the first retry, and so on. Runs that a stop or a crash interrupted do not count."""
        count = self.retry_count
        return 1 if count is None else count + 2

    @property
    def interrupted_count(self) -> int:
        """Number of runs of this job that a stop or a crash interrupted."""
        return self.payload.get("interrupted_count") or 0

    @property
    def rescheduled_count(self) -> int:
        """Number of times that this job has raised `Reschedule`."""
        return max(0, self.payload.get("rescheduled_count", 0))

    @property
    def tags(self) -> Sequence[str]:
        """Labels of the job in logs and in the web UI."""
        return self.payload.get("tags") or ()

    @property
    def entry(self) -> PrivateListEntry | None:
        """Its entry in a private list while it runs, or None. Middleware can move it from there with a script."""
        return None if self.owner is None else PrivateListEntry(self.owner, self.queue, self.raw)

    @property
    def process(self) -> str:
        """Identity of the process that runs the job, ``host:pid:nonce``; empty for a run outside of a worker."""
        return self.alone_in if self.owner is None else self.owner.identity

    @property
    def stopping(self) -> bool:
        """Whether the worker is stopping: a long job may then finish early, before it is interrupted."""
        return self.is_stopping()

    @property
    def cancelled(self) -> bool:
        """Whether the job was cancelled (``jid.cancel()``): a long job checks it, and returns early if it is true.

        Always False without the extension ``Results``.
        """
        return self.control is not None and self.control.asked_to_stop()

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report how far the job is, for ``jid.info().progress``. Does not wait for the server.

        At most one report per second is stored, the latest one. Does nothing for a job that is not tracked.

        Args:
            done: finished units of any kind.
            total: all units; None if unknown.
            message: what the job does now.

        Raises:
            InvalidArguments: ``done`` or ``total`` is not a finite int or float, or ``message`` is not a str.
        """
        report: tuple[tuple[str, object, bool], ...] = (
            ("done", done, _is_finite(done)),
            ("total", total, total is None or _is_finite(total)),
            ("message", message, type(message) is str),
        )
        for name, value, fits in report:
            if not fits:
                expected = "a str" if name == "message" else "a finite int or float"
                got = str(value) if isinstance(value, float) else type(value).__name__
                raise InvalidArguments(f"{self.name}: progress({name}=…) must be {expected}, got {got}")
        if self.control is not None:
            self.control.progress(done, total, message)

    @property
    def deadline(self) -> float | None:
        """End of the soft time limit in epoch seconds, or of the hard one without a soft one; None without both."""
        left = self.time_left_seconds
        return None if left is None else time.time() + left

    @property
    def time_left_seconds(self) -> float | None:
        """Seconds until `deadline`; 0 after it, None without a limit."""
        return None if self.ends_at is None else max(0.0, self.ends_at - time.monotonic())

    @contextmanager
    def measure(self, name: str) -> Generator[None, None, None]:
        """Add the duration of the block to the field ``<name>_duration_s`` of the log line at the end of this run.

        ::

            with current_job().measure("db"):
                rows = connection.execute(query)

        Blocks with the same name add up, including those that raise; nested ones count once. Concurrent threads and
        tasks add up too, so that the sum may exceed the duration of the run.

        Args:
            name: ``db``, ``redis`` or any other name of a-z, 0-9 and _, up to 40 characters.

        Raises:
            InvalidOptions: the name is invalid, or the run would have more than 50 names.
        """
        self._check_measured(name)
        outer = _measuring.get()
        if any(block.open and block.job is self and block.name == name for block in outer):
            yield
            return
        block = _Measured(self, name)
        token = _measuring.set((*outer, block))
        begun = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - begun
            block.open = False
            _measuring.reset(token)
            with _spending:
                if self._spent is None:
                    self._spent = {}
                self._spent[name] = self._spent.get(name, 0.0) + seconds

    @property
    def measured_seconds(self) -> Mapping[str, float]:
        """Seconds that `measure` has added up so far, by name."""
        if self._spent is None:
            return _NOTHING_MEASURED
        with _spending:
            return dict(self._spent)

    def add_measured(self, seconds: Mapping[str, float]) -> None:
        """Add durations of blocks by name, which `measure` had in another process."""
        if seconds:
            with _spending:
                self._spent = {**(self._spent or {}), **seconds}

    def wrap_coroutine(self, wrapper: CoroutineWrapper) -> None:
        """Run code on the event loop of an ``async def`` job, in its task: around its coroutine.

        For server middleware, which itself runs in a thread. Call it before ``yield``; for a plain job it has no
        effect. The last wrapper is the innermost one.

        Args:
            wrapper: takes the coroutine of the job and returns one that awaits it. Called in the thread that entered
                the middleware, which takes other jobs from then on.
        """
        self.wrappers = (*self.wrappers, wrapper)

    def wrapped(self, coroutine: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of the job inside of all wrappers."""
        for wrapper in reversed(self.wrappers):
            coroutine = wrapper(coroutine)
        return coroutine

    def ended(self) -> None:
        """Drop what refers back to this settled run; such a cycle would exist until the next garbage collection."""
        self.control = None
        self.wrappers = ()

    def _check_measured(self, name: str) -> None:
        if not _MEASURED_NAME.fullmatch(name):
            raise InvalidOptions(f"measure: {name!r} is not a valid name; use up to 40 characters of a-z, 0-9 and _")
        if self._spent is not None and name not in self._spent and len(self._spent) >= _MAX_MEASURED:
            raise InvalidOptions(
                f"measure: {name!r}: a run has at most {_MAX_MEASURED} names; put variable data into job.log"
            )


class _Measured:
    """A block of `JobContext.measure`, visible to the code inside it."""

    def __init__(self, job: JobContext, name: str) -> None:
        self.job = job
        self.name = name
        self.open = True


_measuring: ContextVar[tuple[_Measured, ...]] = ContextVar("offsider_measuring", default=())
_job: ContextVar[JobContext | None] = ContextVar("offsider_job", default=None)


def current_job() -> JobContext:
    """Return the job that runs here; NoCurrentJob outside of a job."""
    job = _job.get()
    if job is None:
        raise NoCurrentJob("no job is running here: call current_job() only in a job, or in code that it calls")
    return job


#: Returns the job that runs here; None outside of a job.
current_job_or_none = _job.get
#: Makes a job the current one, until a call with None. Cheaper than `running`, for the executor.
enter_job: Callable[[JobContext | None], object] = _job.set


@contextmanager
def running(job: JobContext) -> Generator[JobContext, None, None]:
    """Make ``job`` the current one inside the block."""
    token = _job.set(job)
    try:
        yield job
    finally:
        _job.reset(token)
