"""The exceptions of offsider, in one hierarchy.

::

    OffsiderError
    ├── ConfigurationError (ValueError)     invalid setting; the message names the key
    │   ├── UnsupportedServer               too old, a Cluster, a replica, unusable
    │   └── InvalidQuery                    invalid query for jobs
    ├── InvalidJob (ValueError)             invalid push or declaration
    │   ├── InvalidArguments                not JSON, or they do not match the signature
    │   │   └── PayloadTooLarge             larger than payload_limit_bytes
    │   └── InvalidOptions                  unknown or invalid option
    │       └── BatchSpansServers           a job of a batch is for another server
    ├── UnknownSubject (LookupError)        what a page or an action names does not exist
    │   └── UnknownBatch                    there is no such batch, or it has expired
    ├── BatchFinished                       the batch has succeeded and takes no more jobs
    ├── UnknownJob (LookupError)            no job is registered under this name
    ├── MalformedPayload (ValueError)       stored bytes that are not a job
    ├── NoCurrentJob (LookupError)          current_job() outside a job
    ├── Retry                               a failed attempt, with the delay until the next one
    ├── TooManyReschedules                  the job exceeded its limit of reschedules
    ├── OverLimit                           a limiter refuses the use of a resource
    ├── NoCapableWorker                     no live worker could run the job for a long time
    ├── EmbeddedProcess                     a signal for a worker inside another program
    ├── PoisonPill                          the job crashed processes; not raised, passed to death handlers
    ├── JobKilled                           an operator killed the job; not raised, passed to death handlers
    ├── JobFailed                           result() of a job that has ended without success
    ├── PushCanceled                        a method of the falsy id of a job that was not stored
    ├── NoResult (LookupError)              result() of a job without a stored result
    ├── ResultTimeout (TimeoutError)        result() of a job that has not ended in time
    ├── SignalTimeout (TimeoutError)        a signal has not come in time
    ├── DecryptionFailed                    a value of an encrypted job cannot be decrypted
    ├── JobCancelled                        raised in a running job by cancel(hard=True), or by an operator
    ├── CannotCancel                        the run has ended, or a Ruby process runs it
    ├── SoftTimeout                         the job reached its soft_timeout and may clean up
    ├── HardTimeout                         the job reached its hard_timeout and has failed
    ├── ProcessCrashed                      the process of an isolated job ended during the run
    ├── RedisFailure                        a command failed
    │   ├── RedisUnavailable                no reply; `ambiguous` if the command may have been executed
    │   ├── RedisRefused                    an error reply; the command was not executed
    │   │   ├── QueueFull                   out of memory
    │   │   └── Fenced                      this process was declared dead
    │   └── NotReplicated                   stored, but on fewer replicas than requested
    └── JobSignal                           raised by jobs on purpose; never a failure
        ├── Reschedule
        ├── Discard
        └── Skip

    Shutdown (BaseException)                interrupts a running job at the stop deadline
    └── RunInterrupted                      ends a run between two elements of an iteration
        └── Waiting                         ends a run that waits for a time or a signal
"""

from __future__ import annotations

import copyreg
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal, SupportsFloat, TypeAlias

from offsider.core.clock import MAX_SECONDS, as_seconds

RescheduleCounter: TypeAlias = Literal["rescheduled_count", "overrated"]


class OffsiderError(Exception):
    """Base class of all errors of this package."""

    def __reduce__(self) -> tuple[Any, ...]:
        # `Exception` would call the class with the message alone.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class ConfigurationError(OffsiderError, ValueError):
    """A setting is invalid. The message names the key and the expected values."""


class UnsupportedServer(ConfigurationError):
    """The Redis or Valkey server is not supported: too old, a Cluster, a replica."""


class InvalidQuery(ConfigurationError):
    """A query for jobs is invalid. The message contains the position."""


class InvalidJob(OffsiderError, ValueError):
    """A push or declaration is invalid."""


class InvalidArguments(InvalidJob):
    """Arguments are not JSON, or do not match the job's signature."""


class PayloadTooLarge(InvalidArguments):
    """The payload of the job ``name`` has ``size_bytes``, more than the limit, ``limit_bytes``."""

    def __init__(self, name: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{name}: the payload has {size_bytes:,} bytes, over client.payload_limit_bytes ({limit_bytes:,}); pass an "
            "id and load the data in the job, or declare the job with big_payload=True"
        )
        self.name = name
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class InvalidOptions(InvalidJob):
    """An option is unknown or invalid: ``retry=-1``, ``retry`` with ``retry_for``, a bad queue name."""


class BatchSpansServers(InvalidOptions):
    """A job, callback or child of a batch is for another server than the batch."""


class UnknownSubject(OffsiderError, LookupError):
    """The subject of a page or an action does not exist: a batch, a lock, a periodic job."""


class UnknownBatch(UnknownSubject):
    """There is no batch with this bid on this server, or it has expired; or the running job has no batch."""


class BatchFinished(OffsiderError):
    """The batch has succeeded, so it takes no more jobs: its callbacks have been pushed."""


class UnknownJob(OffsiderError, LookupError):
    """No job is registered under ``name``."""

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(message or f"no job is registered under the name {name!r}")
        self.name = name


class MalformedPayload(OffsiderError, ValueError):
    """Stored bytes are not a job. ``raw`` contains them unchanged, ``reason`` describes the error."""

    def __init__(self, raw: bytes, reason: str) -> None:
        super().__init__(f"malformed payload: {reason}")
        self.raw = raw
        self.reason = reason


class NoCurrentJob(OffsiderError, LookupError):
    """``current_job()`` was called where no job is running."""


class NoCapableWorker(OffsiderError):
    """The job was stranded for longer than ``worker.stranded_days``, so it was moved to the dead set.

    No live worker of its queue has its class, or the class has another signature there.
    """


class EmbeddedProcess(OffsiderError):
    """A worker inside another program accepts no signals through Redis: they would stop that program."""


class PoisonPill(OffsiderError):
    """The error of a job moved to the dead set because it crashed processes, named by ``identities``.

    It is never raised, since these processes died. Death handlers receive it, and the dead set shows it.
    """

    def __init__(self, identities: Sequence[str]) -> None:
        super().__init__(
            f"{len(identities)} processes crashed while they had this job, the last one while it ran only this job: "
            f"{', '.join(identities)}"
        )
        self.identities = tuple(identities)


class JobKilled(OffsiderError):
    """The error of a job killed by an operator; the message is the reason.

    It is never raised, only passed to death handlers.
    """


class JobFailed(OffsiderError):
    """The job whose result was read has ended without success.

    ``jid`` is the job. ``state`` is ``"failed"``, ``"dead"``, ``"discarded"``, ``"cancelled"`` or ``"expired"``.
    ``error_class`` and ``error_message`` describe what it raised; they are empty if it raised nothing.
    """

    def __init__(self, jid: str, state: str, error_class: str = "", error_message: str = "") -> None:
        reason = f": {error_class}: {error_message}" if error_class else ""
        super().__init__(f"job {jid} has ended as {state}{reason}")
        self.jid = jid
        self.state = state
        self.error_class = error_class
        self.error_message = error_message


class PushCanceled(OffsiderError):
    """The job of a falsy `JobId` was not stored: client middleware canceled its push, or it was a duplicate."""


class NoResult(OffsiderError, LookupError):
    """No result is stored for the job, and none will be. The message contains the reason."""


class ResultTimeout(OffsiderError, TimeoutError):
    """The job has not ended in time. It may still run."""


class SignalTimeout(OffsiderError, TimeoutError):
    """A signal that the job waits for has not come in time; see `wait_for`."""


class DecryptionFailed(OffsiderError):
    """A value of an encrypted job cannot be decrypted; see `offsider.ext.encryption`. The message contains no value."""


class JobCancelled(OffsiderError):
    """Raised in a running job that was canceled with ``hard=True``, or by an operator. The job is not retried.

    A job that an operator cancels moves to the dead set.
    """


class CannotCancel(OffsiderError):
    """The run of a job cannot be canceled: it has ended, or a Ruby process runs it."""


class SoftTimeout(OffsiderError):
    """Raised in a job that reaches its ``soft_timeout``: clean up and return.

    If the job does not catch it, the run fails. If it does, it may continue until its ``hard_timeout``, if any.
    """


class HardTimeout(OffsiderError):
    """The job reached its ``hard_timeout``: the run has failed, even if the job continues."""


class ProcessCrashed(OffsiderError):
    """The process of an isolated job ended during the run: by a signal, such as SIGSEGV, or by ``os._exit``."""


class RedisFailure(OffsiderError):
    """A command failed.

    ``code`` is the first word of the server's reply (``"WRONGTYPE"``); empty if there was no reply.
    """

    code: str = ""


class RedisUnavailable(RedisFailure):
    """The server could not be reached, or the connection failed; or a Cluster cannot execute commands now.

    ``ambiguous`` is true if the command was sent, and the server may have executed it.
    """

    def __init__(self, message: str, *, ambiguous: bool = False, code: str = "") -> None:
        super().__init__(message)
        self.ambiguous = ambiguous
        self.code = code


class RedisRefused(RedisFailure):
    """The server returned an error and did not execute the command."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code or message.partition(" ")[0]


class QueueFull(RedisRefused):
    """The server is out of memory and accepts no more jobs (``OOM``)."""


class Fenced(RedisRefused):
    """Another process declared this one dead; its writes are rejected."""


class NotReplicated(RedisFailure):
    """The job ``jid`` is stored, but only ``reached`` of ``wanted`` replicas confirmed it in time.

    It will run. If you push it again, it runs twice.
    """

    def __init__(self, jid: str, *, wanted: int, reached: int) -> None:
        super().__init__(
            f"job {jid} is stored, but only {reached} of {wanted} replicas confirmed it; do not push it again"
        )
        self.jid = jid
        self.wanted = wanted
        self.reached = reached


class OverLimit(OffsiderError):
    """A limiter refuses the use of a resource: its limit is reached, and waiting would take too long.

    In a job, the extension ``Limiters`` reschedules the job; elsewhere, handle the error.

    Attributes:
        limiter: the limiter, an `offsider.ext.limiters.Limiter`.
        remaining: what the limiter would still grant; 0 for most limiters.
        retry_in_seconds: time until the limiter can grant the request, if others use nothing.
    """

    def __init__(self, limiter: Any, *, remaining: float = 0, retry_in_seconds: float = 0.0) -> None:
        super().__init__(f"{limiter} is at its limit; try again in {retry_in_seconds:.3g} s")
        self.limiter = limiter
        self.remaining = remaining
        self.retry_in_seconds = retry_in_seconds

    def __reduce__(self) -> tuple[Any, ...]:
        make, args, state = super().__reduce__()
        return make, args, {**state, "limiter": str(self.limiter)}


class Retry(OffsiderError):
    """Fail this attempt, and retry the job after an exact delay: ``raise Retry(after=30, reason="the bank is down")``.

    It uses up a retry; the job dies after the last one. See `Reschedule` for a run that is no failure.

    Args:
        after: seconds from 0 to 1e9, or a timedelta, else ValueError; None for the usual delay.
        reason: for the log and the pages.

    Attributes:
        after_seconds: the delay; None for the usual one.
        reason: as given.
    """

    def __init__(self, after: SupportsFloat | timedelta | None = None, *, reason: str = "") -> None:
        self.after_seconds = None if after is None else _delay(after, "the delay of Retry")
        self.reason = reason
        when = "" if self.after_seconds is None else f"retry after {self.after_seconds:g} s"
        super().__init__(": ".join(part for part in (when, reason) if part) or "retry")

    @classmethod
    def after_header(cls, response: Any, *, reason: str = "") -> Retry:
        """Return a `Retry` with the delay of a response's ``Retry-After``, the usual delay without one.

        Args:
            response: of httpx, requests or another client: it has ``headers``, a mapping. The header has seconds or an
                HTTP date, RFC 9110, 10.2.3.
            reason: as above; default: the status of the response.
        """
        from email.utils import parsedate_to_datetime  # takes longer to import than all of offsider's errors

        header, status = str(response.headers.get("Retry-After", "")).strip(), getattr(response, "status_code", "")
        after: float | None = None
        with suppress(ValueError):
            after = float(header) if header.isdigit() else parsedate_to_datetime(header).timestamp() - time.time()
        within = None if after is None else min(max(0.0, after), MAX_SECONDS)
        return cls(within, reason=reason or f"status {status}".strip())


def _delay(given: SupportsFloat | timedelta, what: str) -> float:
    if isinstance(given, SupportsFloat) and not isinstance(given, int | float):
        given = float(given)  # a Decimal, a Fraction or a number of NumPy
    return as_seconds(given, what, at_least=0)


class JobSignal(OffsiderError):
    """Base class of the exceptions that a job raises to control its run. Never counted as a failure."""


class TooManyReschedules(OffsiderError):
    """A job raised `Reschedule` more often than its limit, so the run failed. ``count`` is the limit."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"the job reached its limit of {count:,} reschedules; to raise it, use Reschedule(seconds, limit=...)"
        )
        self.count = count


#: Default limit of reschedules per job.
RESCHEDULE_LIMIT = 1_000


class Reschedule(JobSignal):
    """Run this job again later: ``raise Reschedule(30)`` or ``raise Reschedule(timedelta(minutes=5))``.

    ``seconds`` must be from 0 to 1e9, else ValueError. ``reason`` is logged. A job may reschedule itself up
    to ``limit`` times in total; None for no limit. The next time, the run fails with `TooManyReschedules`, which uses
    up a retry. While the worker stops (``current_job().stopping``), a reschedule is not counted. ``counter`` is
    the field of the payload with their number.
    """

    counter: RescheduleCounter | None = "rescheduled_count"

    def __init__(
        self, seconds: SupportsFloat | timedelta, *, reason: str = "", limit: int | None = RESCHEDULE_LIMIT
    ) -> None:
        delay = _delay(seconds, "the delay of Reschedule")
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ValueError(f"Reschedule expects a limit of at least 1, or None, got {limit!r}")
        super().__init__(f"rescheduled in {delay:g} s: {reason}" if reason else f"rescheduled in {delay:g} s")
        self.seconds = delay
        self.reason = reason
        self.limit = limit


class Discard(JobSignal):
    """Discard this job: it is not retried, and death handlers run. ``reason`` is logged."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Skip(JobSignal):
    """There is nothing to do: the job counts as succeeded. ``reason`` is logged."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Shutdown(BaseException):
    """Interrupts a running job at the stop deadline; the job is requeued.

    Not an ``Exception``, so that a broad ``except Exception`` in a job does not swallow it.
    """


class RunInterrupted(Shutdown):
    """Ends the run of a job between two elements or steps, and of one that another process owns; it is requeued."""


class Waiting(RunInterrupted):
    """Ends the run of a job that waits; see `sleep_until`. It runs again after ``seconds``, which is not counted."""

    limit, counter = None, None

    def __init__(self, seconds: float, reason: str) -> None:
        super().__init__(f"{reason} for {seconds:g} s")
        self.seconds = seconds
        self.reason = reason
