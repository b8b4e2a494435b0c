"""Decides about a failed job: retry it, move it to the dead set, or delete it.

The rules are Sidekiq's (parity.md, rows C2-C6, C11, C12, D1-D7):

1. If ``retry`` is False, the job is deleted, and death handlers run.
2. The payload records the failure: ``error_*``, ``failed_at`` at the first failure, ``retried_at`` at later ones, and
   ``retry_count`` from 0.
3. A job is exhausted after ``retry`` retries, that is after ``retry`` + 1 failed runs, or ``retry_for`` seconds after
   ``failed_at``.
4. `Retry` has the delay, which is exact. Otherwise the job's ``retry_in`` returns a delay, ``"kill"``, ``"discard"``,
   or None for the default formula. A number gets jitter, as in Sidekiq; a timedelta is exact.
5. A job that was stranded for too long has never run: it is exhausted regardless of ``retry``.
6. A job whose run an operator canceled is exhausted, too.
7. For an exhausted job ``on_exhausted`` may return ``"discard"``. Otherwise the job moves to the dead set, unless
   ``dead`` is False.

This module writes nothing to Redis.
"""

from __future__ import annotations

import traceback
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from offsider.core.clock import MAX_SECONDS
from offsider.core.compression import compress_backtrace, decode_plain, expand
from offsider.core.error_text import class_of, frame_of, message_of, trace_of
from offsider.core.errors import DecryptionFailed, JobCancelled, NoCapableWorker, Retry, UnknownJob
from offsider.core.normalize import normalize
from offsider.core.payload import decode, encode, forget_stranded, new_jid, read_stamp, stamp
from offsider.worker.disposition import Dead, Done, Later
from offsider.worker.run.interrupt import caused_by

if TYPE_CHECKING:
    from random import Random

    from offsider.config.config import Config
    from offsider.core.payload import JobPayload
    from offsider.jobs.registry import Declared
    from offsider.runtime.context import JobContext
    from offsider.worker.disposition import Disposition


MAX_BACKTRACE_LINES = 1_000


class Retrier:
    """Decides about the failed jobs of one worker."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._wire_version = config.redis.wire_version

    def decide(self, job: JobContext, error: BaseException) -> Disposition:
        """Decide about ``job``, which raised ``error``."""
        # Decode again: middleware and the job may have changed their copy of the payload.
        payload = decode(job.raw)
        known = normalize(payload)
        declared = cast("Declared | None", job.declared)
        retry = retry_option(known, declared)
        stranded = isinstance(error, NoCapableWorker)
        never_ran = stranded or (declared is None and isinstance(error, UnknownJob))
        if (retry is False or retry is None) and not never_ran:
            return Done(expand(payload, job.raw))
        if not known.get("jid"):
            payload["jid"] = job.jid or new_jid()
        count = self._note_failure(payload, known, job, error)
        # Encode it before the job's callbacks run: they may add values that JSON cannot represent.
        stored = encode(payload)
        payload = expand(payload, job.raw)
        is_last = stranded or caused_by(JobCancelled, error) is not None
        if is_last or self._exhausted(known.get("retry_for"), payload, retry or 0, count):
            # Keep a job that never ran: `retry`, `dead` and callbacks apply only to jobs that have failed.
            return Dead(stored, payload) if never_ran else self._exhaust(payload, stored, declared, error)
        match self._asked_delay(declared, count, error, payload):
            case "kill":
                return self._exhaust(payload, stored, declared, error)
            case "discard":
                return self._discard(payload)
            case float(delay):
                pass
            case _:
                delay = retry_delay(count, self._config.random)
        return Later("retry", stored, delay)

    def bury(self, job: JobContext, error: BaseException) -> Dead:
        """Move a job to the dead set, whatever its options say."""
        payload = decode(job.raw)
        known = normalize(payload)
        if not known.get("jid"):
            payload["jid"] = new_jid()
        self._note_failure(payload, known, job, error)
        return Dead(encode(payload), expand(payload, job.raw))

    def discard(self, job: JobContext) -> Done:
        """Delete a job that raised `Discard`."""
        return self._discard(decode_plain(job.raw))

    def _note_failure(self, payload: JobPayload, known: JobPayload, job: JobContext, error: BaseException) -> int:
        now = stamp(self._config.clock.now(), self._wire_version)
        forget_stranded(payload)
        payload["queue"] = known.get("retry_queue") or job.queue
        payload["error_message"] = message_of(error)
        payload["error_class"] = class_of(error)
        if "retry_count" in known:
            payload["retried_at"] = now
            payload["retry_count"] = max(0, known["retry_count"] + 1)
            if read_stamp(payload.get("failed_at")) is None:
                payload["failed_at"] = now  # `retry_for` counts from it, and would never end without it
        else:
            payload["failed_at"] = now
            payload["retry_count"] = 0
        lines = backtrace_lines(error, known.get("backtrace") or False)
        if lines:
            payload["error_backtrace"] = compress_backtrace(lines, self._wire_version)
        frame = frame_of(error, "" if job.declared is None else job.declared.module)
        if frame.name:
            payload["error_frame"] = frame.name  # after Sidekiq's keys
        else:
            payload.pop("error_frame", None)  # of an earlier failure
        return payload["retry_count"]

    def _exhausted(self, retry_for: float | None, payload: JobPayload, retry: int, count: int) -> bool:
        if retry_for is not None:
            since = read_stamp(payload.get("failed_at"))
            # An unreadable timestamp must not cause endless retries.
            return since is None or self._config.clock.now() - since > retry_for
        most = self._config.worker.max_retries if retry is True else int(retry)
        return count >= most

    def _asked_delay(
        self, declared: Declared | None, count: int, error: BaseException, payload: JobPayload
    ) -> float | str | None:
        if isinstance(error, Retry) and error.after_seconds is not None:
            return error.after_seconds
        if declared is None or declared.retry_in is None:
            return None
        try:
            asked: Any = declared.retry_in(count, error, self._opened(payload))
            if asked in ("kill", "discard"):
                return str(asked)
            is_exact = isinstance(asked, timedelta)
            delay = asked.total_seconds() if is_exact else float(asked or 0)
        except BaseException as own:  # noqa: BLE001 - a broken retry_in, even one that exits, falls back to the formula
            self._config.handle_error(own, {"context": f"retry_in of {payload['class']}", "job": payload})
            return None
        if not 0 < delay <= MAX_SECONDS:
            return None
        return delay if is_exact else delay + jitter(count, self._config.random)

    def _exhaust(
        self, payload: JobPayload, stored: bytes, declared: Declared | None, error: BaseException
    ) -> Later | Dead | Done:
        if declared is not None and declared.on_exhausted is not None:
            try:
                if declared.on_exhausted(self._opened(payload), error) == "discard":
                    return self._discard(payload)
            except BaseException as own:  # noqa: BLE001 - a broken callback must not lose the job
                self._config.handle_error(own, {"context": f"on_exhausted of {payload['class']}", "job": payload})
        if payload.get("dead") is False:
            return self._discard(payload)
        return Dead(stored, payload)

    def _opened(self, payload: JobPayload) -> JobPayload:
        """Return the payload for a callback of the job, which knows its arguments."""
        encryption = self._config.encryption
        if encryption is None or "encrypt" not in payload:
            return payload
        try:
            return encryption.opened(payload)
        except DecryptionFailed:  # as the run did
            return payload

    def _discard(self, payload: JobPayload) -> Done:
        payload["discarded_at"] = stamp(self._config.clock.now(), self._wire_version)
        return Done(payload)


def retry_option(payload: JobPayload, declared: Declared | None) -> bool | int | None:
    """Return the option ``retry`` of a job, from its payload or else from its declaration."""
    retry = payload.get("retry")
    if retry is not None:  # Ruby stores an option that is nil as null, which means "not set"
        return retry
    return declared.options.get("retry", True) if declared is not None else True


def backtrace_lines(error: BaseException, wanted: int) -> list[str]:
    """Return ``file:line:in `function'`` as Ruby prints it, innermost first; up to 1,000 lines, or ``wanted``."""
    if wanted is not True and wanted <= 0:
        return []
    most = MAX_BACKTRACE_LINES if wanted is True else min(wanted, MAX_BACKTRACE_LINES)
    frames = traceback.extract_tb(trace_of(error), -most)
    return [f"{frame.filename}:{frame.lineno}:in `{frame.name}'" for frame in reversed(frames)]


def retry_delay(count: int, random: Random) -> float:
    """Seconds until the next run after failure number ``count`` (0 for the first).

    ``count**4 + 15`` plus jitter, as in Sidekiq 8: 25 retries span about three weeks.
    """
    return float(count**4 + 15 + jitter(count, random))


def jitter(count: int, random: Random) -> int:
    """Random whole seconds, 0 to ``10 * (count + 1) - 1``: jobs that failed together are not retried together.

    Sidekiq adds it to delays of a user's ``retry_in`` too.
    """
    return random.randint(0, 10 * (count + 1) - 1)
