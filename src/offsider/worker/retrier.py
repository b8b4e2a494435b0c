"""What becomes of a job that failed: another try, the dead set, or nothing.

As Sidekiq decides it (rows C2-C6, C11, C12, D1-D7):

1. ``retry`` is False: the job is gone, and death handlers run.
2. Note the failure in the payload: ``error_*``, ``failed_at`` the first time, ``retried_at`` later,
   ``retry_count`` from 0.
3. Out of tries (``retry`` of them, or ``retry_for`` seconds since ``failed_at``): exhausted.
4. Ask the job's ``retry_in``: a delay, ``"kill"``, ``"discard"``, or None for the formula.
5. A job that was parked for too long has had no run to fail in: it is exhausted, whatever ``retry`` says.
6. Exhausted: ``on_exhausted`` may discard; else the dead set, unless ``dead`` is False.

Nothing here writes to Redis.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from offsider.core import backoff
from offsider.core.backtrace import compress
from offsider.core.compression import decode_plain, expand
from offsider.core.errors import NoCapableWorker
from offsider.core.payload import decode, encode, new_jid, read_stamp, stamp
from offsider.worker.ability import forget_parking

if TYPE_CHECKING:
    from offsider.core.payload import JobPayload
    from offsider.jobs.registry import Declared
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext

MESSAGE_CHARACTERS = 10_000


@dataclass(frozen=True, slots=True)
class Retry:
    """Run again after ``delay_seconds``."""

    payload: bytes
    delay_seconds: float


@dataclass(frozen=True, slots=True)
class Bury:
    """Into the dead set; death handlers run."""

    payload: bytes
    dead: JobPayload


@dataclass(frozen=True, slots=True)
class Drop:
    """Gone; death handlers run."""

    dead: JobPayload


Decision = Retry | Bury | Drop


class Retrier:
    """Decides for the jobs of one worker."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._wire_version = config.redis.wire_version

    def decide(self, job: JobContext, error: BaseException) -> Decision:
        """What becomes of ``job``, which raised ``error``."""
        # Decoded anew: middleware and the job may have changed the payload that they saw.
        payload = decode(job.raw)
        declared = cast("Declared | None", job.declared)
        retry = self._retry_option(payload, declared)
        was_parked = isinstance(error, NoCapableWorker)
        if (retry is False or retry is None) and not was_parked:
            return Drop(expand(payload, job.raw))
        payload.setdefault("jid", job.jid or new_jid())
        count = self._note_failure(payload, job, error)
        # Before the job's callbacks see it: what they put into it need not be JSON.
        stored = encode(payload)
        payload = expand(payload, job.raw)
        if was_parked or self._exhausted(payload, retry or 0, count):
            return self._exhaust(payload, stored, declared, error)
        match self._asked_delay(declared, count, error, payload):
            case "kill":
                return self._exhaust(payload, stored, declared, error)
            case "discard":
                return self._discard(payload)
            case float(delay):
                delay += backoff.jitter(count, self._config.random)
            case _:
                delay = backoff.retry_delay(count, self._config.random)
        return Retry(stored, delay)

    def discard(self, job: JobContext) -> Drop:
        """The job gave itself up."""
        return self._discard(decode_plain(job.raw))

    def _retry_option(self, payload: JobPayload, declared: Declared | None) -> bool | int | None:
        retry = payload.get("retry")
        if retry is not None:  # Ruby stores an option that was set to nil as null, which means "not set"
            return retry
        return declared.options.get("retry", True) if declared is not None else True

    def _note_failure(self, payload: JobPayload, job: JobContext, error: BaseException) -> int:
        now = stamp(self._config.clock.now(), self._wire_version)
        forget_parking(payload)
        payload["queue"] = payload.get("retry_queue") or job.queue
        payload["error_message"] = message_of(error)
        payload["error_class"] = class_of(error)
        if "retry_count" in payload:
            payload["retried_at"] = now
            payload["retry_count"] = max(0, payload["retry_count"] + 1)
            if read_stamp(payload.get("failed_at")) is None:
                payload["failed_at"] = now  # `retry_for` counts from there, and would never end without it
        else:
            payload["failed_at"] = now
            payload["retry_count"] = 0
        lines = backtrace_lines(error, payload.get("backtrace") or False)
        if lines:
            payload["error_backtrace"] = compress(lines, self._wire_version)
        return payload["retry_count"]

    def _exhausted(self, payload: JobPayload, retry: int, count: int) -> bool:
        retry_for = payload.get("retry_for")
        if retry_for is not None:
            since = read_stamp(payload.get("failed_at"))
            # A stamp that nobody can read must not keep a job alive for ever.
            return since is None or since + retry_for < self._config.clock.now()
        most = self._config.worker.max_retries if retry is True else int(retry)
        return count >= most

    def _asked_delay(
        self, declared: Declared | None, count: int, error: BaseException, payload: JobPayload
    ) -> float | str | None:
        if declared is None or declared.retry_in is None:
            return None
        try:
            asked: Any = declared.retry_in(count, error, payload)
            if asked in ("kill", "discard"):
                return str(asked)
            delay = asked.total_seconds() if isinstance(asked, timedelta) else float(asked or 0)
        except BaseException as own:  # noqa: BLE001 - a broken retry_in, even one that exits, falls back to the formula
            self._config.handle_error(own, {"context": f"retry_in of {payload['class']}", "job": payload})
            return None
        return delay if 0 < delay < float("inf") else None

    def _exhaust(self, payload: JobPayload, stored: bytes, declared: Declared | None, error: BaseException) -> Decision:
        if declared is not None and declared.on_exhausted is not None:
            try:
                if declared.on_exhausted(payload, error) == "discard":
                    return self._discard(payload)
            except BaseException as own:  # noqa: BLE001 - a broken callback must not lose the job
                self._config.handle_error(own, {"context": f"on_exhausted of {payload['class']}", "job": payload})
        if payload.get("dead", True) is False:
            return self._discard(payload)
        return Bury(stored, payload)

    def _discard(self, payload: JobPayload) -> Drop:
        payload["discarded_at"] = stamp(self._config.clock.now(), self._wire_version)
        return Drop(payload)


def message_of(error: BaseException) -> str:
    """The error's message as it may be stored: at most 10,000 characters, valid UTF-8."""
    try:
        text = str(error)
    except Exception as own:  # noqa: BLE001 - an error whose str() raises is still an error of the job
        text = f"(the message of this error cannot be shown: its __str__ raised {type(own).__name__})"
    return text[:MESSAGE_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def class_of(error: BaseException) -> str:
    """The error's class by its full name; built-in ones without their module."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return name.encode("utf-8", "replace").decode("utf-8")


def backtrace_lines(error: BaseException, wanted: int) -> list[str]:
    """``file:line:in `function'`` as Ruby prints it, innermost first; all lines, or the first ``wanted``."""
    if wanted is not True and wanted <= 0:
        return []
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{frame.filename}:{frame.lineno}:in `{frame.name}'" for frame in reversed(frames)]
    return lines if wanted is True else lines[:wanted]
