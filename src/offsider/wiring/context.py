"""The only ambient state: which job and which capsule the current thread or asyncio task works for."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import InvalidOptions, NoCurrentJob
from offsider.core.payload import JobPayload
from offsider.storage.working import Entry, Owner

if TYPE_CHECKING:
    from offsider.wiring.capsule import Capsule


def _never() -> bool:
    return False


_MEASURED_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MOST_MEASURED = 50
_NOTHING_MEASURED: Mapping[str, float] = MappingProxyType({})
_spending = threading.Lock()  # one for all: it is held for the time of an addition


@dataclass
class JobContext:
    """One run of one job, as server middleware and the job itself see it.

    Attributes:
        payload: the decoded payload; middleware may change it, what is stored is `raw`.
        queue: the queue it was taken from.
        raw: the bytes as they lie in Redis.
        declared: what the registry knows about the job; None when no such job is registered.
        log: fields added to the log lines of this run: ``current_job().log["rows"] = 7``.
        bound: what `bind_context` said inside of this run.
        ends_at: when its time is up, by the monotonic clock in seconds; None without a limit. Read it through
            `deadline` and `time_left_seconds`.
        owner: in whose private list it lies; None for a job that is in no such list, as with the basic fetcher.
        alone_in: the process that alone has a job which is in no private list; empty elsewhere. Read it through
            `process`.
        is_stopping: answers whether the worker is on its way out; read it through `stopping`.
    """

    payload: JobPayload
    queue: str
    raw: bytes = b""
    declared: object | None = None
    log: dict[str, object] = field(default_factory=dict[str, object])
    ends_at: float | None = field(default=None, repr=False, compare=False)
    is_stopping: Callable[[], bool] = field(default=_never, repr=False, compare=False)
    owner: Owner | None = field(default=None, repr=False, compare=False)
    alone_in: str = field(default="", repr=False, compare=False)
    bound: dict[str, str | int | float | bool | None] | None = field(default=None, repr=False, compare=False)
    _spent: dict[str, float] | None = field(default=None, repr=False, compare=False)

    @property
    def jid(self) -> str:
        """The job's id, 24 hex digits; empty for a foreign payload that has none yet."""
        return self.payload.get("jid", "")

    @property
    def name(self) -> str:
        """The stored name of the job."""
        return self.payload.get("class", "")

    @property
    def args(self) -> Sequence[Any]:
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
        """1 in the first run, 2 in the first retry, and so on. Runs cut short by a stop or a crash do not count."""
        count = self.retry_count
        return 1 if count is None else count + 2

    @property
    def interrupted_count(self) -> int:
        """How often a run of this job was cut short by a stop or a crash."""
        return self.payload.get("interrupted_count") or 0

    @property
    def tags(self) -> Sequence[str]:
        return self.payload.get("tags") or ()

    @property
    def entry(self) -> Entry | None:
        """Where it lies while it runs: in a private list, or None. Middleware moves it from there by a script."""
        return None if self.owner is None else Entry(self.owner, self.queue, self.raw)

    @property
    def process(self) -> str:
        """The identity of the process that runs it, ``host:pid:nonce``; empty for a run outside of a worker."""
        return self.alone_in if self.owner is None else self.owner.identity

    @property
    def stopping(self) -> bool:
        """True when the worker wants to stop: a long job may then finish early, before it is interrupted."""
        return self.is_stopping()

    @property
    def deadline(self) -> float | None:
        """Epoch seconds when its time is up: its soft limit, or the hard one without a soft one. None without both."""
        left = self.time_left_seconds
        return None if left is None else time.time() + left

    @property
    def time_left_seconds(self) -> float | None:
        """Seconds until `deadline`, 0 when it has passed. None without a limit."""
        return None if self.ends_at is None else max(0.0, self.ends_at - time.monotonic())

    @contextmanager
    def measure(self, name: str) -> Generator[None, None, None]:
        """Add the time of the block to the field ``<name>_duration_s`` of the line that ends this run.

        ::

            with current_job().measure("db"):
                rows = connection.execute(query)

        Blocks of one name add up, also those that raise; one inside of another counts once. Threads and tasks that
        run side by side add up as well, so that the sum may be more than the run took.

        Args:
            name: ``db``, ``redis`` or one of your own: a-z, 0-9 and _, 40 characters at most.

        Raises:
            InvalidOptions: another name, or more than 50 of them.
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
        """What `measure` has added up so far, by name."""
        if self._spent is None:
            return _NOTHING_MEASURED
        with _spending:
            return dict(self._spent)

    def _check_measured(self, name: str) -> None:
        if not _MEASURED_NAME.fullmatch(name):
            raise InvalidOptions(f"measure: {name!r} is no name; use a-z, 0-9 and _, 40 characters at most")
        if self._spent is not None and name not in self._spent and len(self._spent) >= _MOST_MEASURED:
            raise InvalidOptions(f"measure: {name!r} would be name {_MOST_MEASURED + 1}; put what varies into job.log")


class _Measured:
    """A block of `JobContext.measure`, seen by what runs inside of it."""

    def __init__(self, job: JobContext, name: str) -> None:
        self.job = job
        self.name = name
        self.open = True


_measuring: ContextVar[tuple[_Measured, ...]] = ContextVar("offsider_measuring", default=())
_job: ContextVar[JobContext | None] = ContextVar("offsider_job", default=None)
_capsule: ContextVar[object | None] = ContextVar("offsider_capsule", default=None)


def current_job() -> JobContext:
    """The job that runs here; NoCurrentJob outside of one."""
    job = _job.get()
    if job is None:
        raise NoCurrentJob("no job runs here: current_job() works inside a job (and in what it calls) only")
    return job


def current_job_or_none() -> JobContext | None:
    return _job.get()


def enter_job(job: JobContext) -> Token[JobContext | None]:
    """Make ``job`` the current one until `leave_job`: `running` in two halves, for who runs every job."""
    return _job.set(job)


def leave_job(token: Token[JobContext | None]) -> None:
    _job.reset(token)


@contextmanager
def running(job: JobContext) -> Generator[JobContext, None, None]:
    """Make ``job`` the current one for the time of the block."""
    token = _job.set(job)
    try:
        yield job
    finally:
        _job.reset(token)


def current_capsule() -> Capsule | None:
    """The capsule whose thread this is; None outside of a worker."""
    return cast("Capsule | None", _capsule.get())


@contextmanager
def in_capsule(capsule: Capsule) -> Generator[None, None, None]:
    """Make ``capsule`` the current one for the time of the block."""
    token = _capsule.set(capsule)
    try:
        yield
    finally:
        _capsule.reset(token)
