"""The only ambient state: which job and which capsule the current thread or asyncio task works for."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import NoCurrentJob
from offsider.core.payload import JobPayload

if TYPE_CHECKING:
    from offsider.wiring.capsule import Capsule


def _never() -> bool:
    return False


@dataclass
class JobContext:
    """One run of one job, as server middleware and the job itself see it.

    Attributes:
        payload: the decoded payload; middleware may change it, what is stored is `raw`.
        queue: the queue it was taken from.
        raw: the bytes as they lie in Redis.
        declared: what the registry knows about the job; None when no such job is registered.
        log: fields added to the log lines of this run: ``current_job().log["rows"] = 7``.
        ends_at: when its time is up, by the monotonic clock in seconds; None without a limit. Read it through
            `deadline` and `time_left_seconds`.
        is_stopping: answers whether the worker is on its way out; read it through `stopping`.
    """

    payload: JobPayload
    queue: str
    raw: bytes = b""
    declared: object | None = None
    log: dict[str, object] = field(default_factory=dict[str, object])
    ends_at: float | None = field(default=None, repr=False, compare=False)
    is_stopping: Callable[[], bool] = field(default=_never, repr=False, compare=False)

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
