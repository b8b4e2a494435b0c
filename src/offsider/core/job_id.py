"""``JobId``: the id of a stored job, through which its state and its result can be read.

The extension ``offsider.ext.results`` implements the methods; this module declares their interface.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from offsider.core.errors import ConfigurationError, PushCanceled

R_co = TypeVar("R_co", covariant=True)

State: TypeAlias = Literal[
    "untracked",
    "scheduled",
    "queued",
    "running",
    "retrying",
    "succeeded",
    "failed",
    "dead",
    "discarded",
    "cancelled",
    "expired",
]
"""The state of a job; ``untracked`` if none is stored, for example because it has expired."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a running job reported last with ``current_job().progress(done, total, message)``."""

    done: float
    total: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A failed run of a job with ``keep_result``.

    Attributes:
        attempt: 1 for the first run, 2 for the first retry, and so on.
        started_at, failed_at: its start and end, in epoch seconds.
        process: identity of the process that ran the job, ``host:pid:nonce``.
        error_class: the full name of the error's class; built-in classes without their module.
        traceback: the traceback with the message, as Python prints it: up to its last 10,000 characters.
    """

    attempt: int
    started_at: float
    failed_at: float
    process: str
    error_class: str
    traceback: str


@dataclass(frozen=True, slots=True)
class JobInfo:
    """All that is stored about a tracked job.

    Attributes:
        jid: its id.
        state: its state.
        name: the name of the job; empty if it is untracked.
        changed_at: when the state was written, in epoch seconds; 0 if it is untracked.
        due_at: when it is due, in epoch seconds; None unless it is scheduled.
        started_at: start of its last run, in epoch seconds; None before.
        process: identity of the process of its last run, ``host:pid:nonce``; empty before.
        duration_ms: duration of its last finished run; None before.
        progress: of its last run, if it reported any.
        error_class, error_message: the error of its last run; empty without one.
        without_result: why it has no stored result although it has succeeded; empty if it has one.
        failures: the failed runs of a job with ``keep_result``, oldest first, up to the last 25.
        args, kwargs: the arguments of a job with ``track="arguments"``, as JSON stores them; None without.
    """

    jid: str
    state: State
    name: str = ""
    changed_at: float = 0.0
    due_at: float | None = None
    process: str = ""
    duration_ms: int | None = None
    progress: Progress | None = None
    error_class: str = ""
    error_message: str = ""
    without_result: str = ""
    started_at: float | None = None
    failures: tuple[FailedRun, ...] = ()
    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        """Return a line for people: ``succeeded 2030-01-31 14:03:05 in 45 ms on host web-1``, in local time."""
        if not self.changed_at:
            return self.state
        line = f"{self.state} {datetime.fromtimestamp(self.changed_at).astimezone():%Y-%m-%d %H:%M:%S}"
        if self.duration_ms is not None:
            line += f" in {self.duration_ms:,} ms"
        return f"{line} on host {self.process.partition(':')[0]}" if self.process else line


class JobResults(Protocol):
    """Reads and cancels the jobs of one server; see `JobId`. Must be thread-safe."""

    def info(self, jid: str) -> JobInfo: ...
    def result(self, jid: str, timeout: float | None) -> Any: ...
    def cancel(self, jid: str, *, hard: bool) -> bool: ...
    async def ainfo(self, jid: str) -> JobInfo: ...
    async def aresult(self, jid: str, timeout: float | None) -> Any: ...  # noqa: ASYNC109 - see `JobId.aresult`
    async def acancel(self, jid: str, *, hard: bool) -> bool: ...


class HasResults(Protocol):
    """A server whose jobs can be read: `Installation`."""

    @property
    def results(self) -> JobResults: ...


class JobId(str, Generic[R_co]):
    """The id of a stored job: a string, with methods that read the state and the result of the job.

    ::

        jid = report.enqueue(7)
        jid.status()                # "queued"
        jid.result(timeout=30)      # what the job returned

    Type checkers know the type of the result. A pickled `JobId` is a plain string; ``report.lookup`` and
    `offsider.lookup` make one from a string. The methods need the extension ``Results``, and raise ConfigurationError
    without it; RedisUnavailable if the server does not answer. The id of a push that client middleware canceled, or
    that was dropped as a duplicate, is falsy; its methods raise PushCanceled.
    """

    __slots__ = ("_server",)

    _server: HasResults

    @classmethod
    def at(cls, server: HasResults, jid: str) -> JobId[Any]:
        """Return the id of a job of a server."""
        made: JobId[Any] = cls(jid)
        made._server = server
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)

    def __copy__(self) -> JobId[R_co]:
        return self

    def __deepcopy__(self, memo: object) -> JobId[R_co]:
        return self

    def status(self) -> State:
        """Return the state of the job; ``"untracked"`` if none is stored."""
        return self.info().state

    def info(self) -> JobInfo:
        """Return the state of the job with its times, progress and error."""
        return self._results.info(str(self))

    def result(self, timeout: float | None = None) -> R_co:
        """Wait until the job ends, and return its result.

        Waiting sends no commands to the server.

        Args:
            timeout: maximum wait in seconds; 0 does not wait, None waits without limit.

        Raises:
            JobFailed: the job failed for good, was discarded or cancelled, or has expired.
            ResultTimeout: it has not ended in time. It is also a TimeoutError.
            NoResult: there is no result: the job is not tracked, does not keep its result, or the result has expired,
                is too large or is not JSON.
        """
        found: R_co = self._results.result(str(self), timeout)
        return found

    def cancel(self, *, hard: bool = False) -> bool:
        """Cancel the job: remove it if it waits, ask it to stop if it runs.

        A running job sees ``current_job().cancelled`` within a second; an ``async def`` job gets a CancelledError. It
        is not retried, whatever it raises. A tracked job deep in a long queue stays there; its run is skipped.

        Args:
            hard: also raise `JobCancelled` in a job that runs in a thread. Python cannot raise it during a system call
                or in C code; such a job ends as cancelled when it returns.

        Returns:
            Whether the job was removed, or asked to stop. False if it has ended, or does not exist.
        """
        return self._results.cancel(str(self), hard=hard)

    async def astatus(self) -> State:
        """As `status`, without blocking the event loop."""
        return (await self.ainfo()).state

    async def ainfo(self) -> JobInfo:
        """As `info`, without blocking the event loop."""
        return await self._results.ainfo(str(self))

    async def aresult(self, timeout: float | None = None) -> R_co:  # noqa: ASYNC109 - the parameter of `result`
        """As `result`, without blocking the event loop."""
        found: R_co = await self._results.aresult(str(self), timeout)
        return found

    async def acancel(self, *, hard: bool = False) -> bool:
        """As `cancel`, without blocking the event loop."""
        return await self._results.acancel(str(self), hard=hard)

    @property
    def _results(self) -> JobResults:
        if not self:
            raise PushCanceled(
                "this job was not stored: client middleware canceled its push, or it was dropped as a duplicate; "
                "check `if jid:` first"
            )
        try:
            server = self._server
        except AttributeError:
            raise ConfigurationError(
                f"this JobId was made from a string: call offsider.lookup({str(self)!r}), which knows the server"
            ) from None
        return server.results
