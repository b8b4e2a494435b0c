"""Every error that offsider raises, in one tree.

::

    OffsiderError
    ├── ConfigurationError (ValueError)     a setting is wrong; the message names the key
    │   ├── UnsupportedServer               too old, a Cluster, a replica, unusable
    │   └── InvalidQuery                    a query that chooses jobs cannot be read
    ├── InvalidJob (ValueError)             what was pushed or declared cannot become a job
    │   ├── InvalidArguments                not JSON, or they do not fit the signature
    │   │   └── PayloadTooLarge             more bytes than payload_limit_bytes allows
    │   └── InvalidOptions                  unknown or impossible option
    ├── UnknownJob (LookupError)            no job is registered under this name
    ├── MalformedPayload (ValueError)       stored bytes that are not a job
    ├── NoCurrentJob (LookupError)          current_job() outside a job
    ├── NoCapableWorker                     for a long time no live worker could run the job
    ├── EmbeddedProcess                     a signal for a worker that is part of another program
    ├── PoisonPill                          a job that processes die of; never raised, told to death handlers
    ├── SoftTimeout                         the job has run for its soft_timeout; it may clean up
    ├── HardTimeout                         the job has run for its hard_timeout, and has failed
    ├── RedisFailure                        the server did not do what was asked
    │   ├── RedisUnavailable                no answer; `ambiguous` says whether it may have acted
    │   ├── RedisRefused                    an error reply; the server did not act
    │   │   ├── QueueFull                   out of memory
    │   │   └── Fenced                      this process was declared dead
    │   └── NotReplicated                   stored, but on fewer replicas than wanted
    └── JobSignal                           raised by jobs on purpose; never a failure
        ├── Reschedule
        ├── Discard
        ├── Skip
        └── MovedAway                   raised by middleware whose own script has stored the job elsewhere

    Shutdown (BaseException)                interrupts a running job at the stop deadline
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta


class OffsiderError(Exception):
    """Base of every error of this package, for one broad ``except``."""


class ConfigurationError(OffsiderError, ValueError):
    """A setting is wrong. The message names the key and what it expects."""


class UnsupportedServer(ConfigurationError):
    """The Redis or Valkey server cannot carry jobs: too old, a Cluster, a replica."""


class InvalidQuery(ConfigurationError):
    """A query that chooses jobs cannot be read. The message names the place."""


class InvalidJob(OffsiderError, ValueError):
    """What was pushed or declared cannot become a job."""


class InvalidArguments(InvalidJob):
    """Arguments are not JSON, or do not fit the job's signature."""


class PayloadTooLarge(InvalidArguments):
    """The job ``name`` would be stored with ``size_bytes``; the setting ``payload_limit_bytes`` is ``limit_bytes``."""

    def __init__(self, name: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{name}: its arguments make the job {size_bytes:,} bytes large, and client.payload_limit_bytes is "
            f"{limit_bytes:,}; pass an id and load the data in the job, or declare it with big_payload=True"
        )
        self.name = name
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes

    def __reduce__(self) -> tuple[type[PayloadTooLarge], tuple[str, int, int]]:
        return type(self), (self.name, self.size_bytes, self.limit_bytes)


class InvalidOptions(InvalidJob):
    """An option is unknown or impossible: ``retry=-1``, ``retry`` with ``retry_for``, a bad queue name."""


class UnknownJob(OffsiderError, LookupError):
    """No job is registered under ``name``."""

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(message or f"no job is registered under the name {name!r}")
        self.name = name


class MalformedPayload(OffsiderError, ValueError):
    """Stored bytes that are not a job. ``raw`` holds them unchanged, ``reason`` says what is wrong."""

    def __init__(self, raw: bytes, reason: str) -> None:
        super().__init__(f"malformed payload: {reason}")
        self.raw = raw
        self.reason = reason


class NoCurrentJob(OffsiderError, LookupError):
    """``current_job()`` was called where no job is running."""


class NoCapableWorker(OffsiderError):
    """For a long time no live worker of its queue could run the job, which therefore is in the dead set.

    Its class is not declared in any of them, or its arguments were made for other parameters.
    """


class EmbeddedProcess(OffsiderError):
    """A worker inside another program takes no signals through Redis: they would stop that program's work."""


class PoisonPill(OffsiderError):
    """A job that processes die of: the error of a job that was buried for it. ``identities`` names the processes.

    Nobody raises it, since nobody is left to. Death handlers get it, and the dead set shows it.
    """

    def __init__(self, identities: Sequence[str]) -> None:
        super().__init__(
            f"{len(identities)} processes died while they ran this job, the last one while it ran nothing else: "
            f"{', '.join(identities)}"
        )
        self.identities = tuple(identities)

    def __reduce__(self) -> tuple[type[PoisonPill], tuple[tuple[str, ...]]]:
        return type(self), (self.identities,)


class SoftTimeout(OffsiderError):
    """Raised in a job that has run for its ``soft_timeout``: time to clean up and end.

    A job that lets it through has failed. One that swallows it goes on until its ``hard_timeout``, if it has one.
    """


class HardTimeout(OffsiderError):
    """The job has run for its ``hard_timeout``: it has failed, whatever it still does."""


class RedisFailure(OffsiderError):
    """The server did not do what was asked."""


class RedisUnavailable(RedisFailure):
    """The server could not be reached, or went away.

    ``ambiguous`` is true when the command had been sent: the server may or may not have executed it.
    """

    def __init__(self, message: str, *, ambiguous: bool = False) -> None:
        super().__init__(message)
        self.ambiguous = ambiguous


class RedisRefused(RedisFailure):
    """The server answered with an error and did not act. ``code`` is its first word (``"WRONGTYPE"``)."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code or message.partition(" ")[0]


class QueueFull(RedisRefused):
    """The server is out of memory and takes no further jobs (``OOM``)."""


class Fenced(RedisRefused):
    """Another process declared this one dead; nothing it writes is taken any more."""


class NotReplicated(RedisFailure):
    """The job ``jid`` is stored, but only ``reached`` of ``wanted`` replicas confirmed it in time.

    It will run: pushing it again would make it run twice.
    """

    def __init__(self, jid: str, *, wanted: int, reached: int) -> None:
        super().__init__(
            f"job {jid} is stored, not replicated: {reached} of {wanted} replicas confirmed it; do not push it again"
        )
        self.jid = jid
        self.wanted = wanted
        self.reached = reached


class JobSignal(OffsiderError):
    """Raised by a job on purpose to end its run in a special way. Never counted as a failure."""


class Reschedule(JobSignal):
    """Run this job again later: ``raise Reschedule(30)`` or ``raise Reschedule(timedelta(minutes=5))``.

    ``seconds`` must be finite and not negative, else ValueError. ``reason`` goes to the log.
    """

    def __init__(self, seconds: float | timedelta, *, reason: str = "") -> None:
        delay = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
        if not math.isfinite(delay) or delay < 0:
            raise ValueError(f"Reschedule expects a finite number of seconds >= 0, got {seconds!r}")
        super().__init__(f"rescheduled in {delay:g} s: {reason}" if reason else f"rescheduled in {delay:g} s")
        self.seconds = delay
        self.reason = reason

    def __reduce__(self) -> tuple[type[Reschedule], tuple[float], dict[str, object]]:
        return type(self), (self.seconds,), {"args": self.args, "reason": self.reason}


class Discard(JobSignal):
    """Give this job up: it is not retried, and death handlers run. ``reason`` goes to the log."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class Skip(JobSignal):
    """There is nothing to do: the job counts as done. ``reason`` goes to the log."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class MovedAway(JobSignal):
    """Raised by server middleware that has moved this job out of its private list by a script of its own.

    Nothing more is written about the run, and nobody counts it: the job is at ``place`` now, which goes to the log.
    A script that does this looks first whether the job is still in the list, and answers the same when it is asked
    again after a lost reply. Raised of a job that still is in its list, it makes the job run again soon.
    """

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


class Shutdown(BaseException):
    """Interrupts a running job when the stop deadline has passed; the job will run again.

    Not an ``Exception``, so that a broad ``except Exception`` in a job does not swallow it.
    """
