"""The job log: one line when a job starts and one when it ends, at INFO.

It uses Sidekiq's words: ``start``, ``done``, ``fail``. The formatters add the class and jid of the job to every line
that is logged while it runs. The ``log_level`` of a payload applies to the runs of that job only.

With ``log.format = "json"`` the same words are the field ``job_status``, and the other fields are GitLab's.
Fields that are expensive to compute are computed for that format only.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from offsider.core.error_text import shown
from offsider.core.outcome import (
    Discarded,
    Failed,
    Interrupted,
    NotStarted,
    Outcome,
    Rescheduled,
    Skipped,
    Succeeded,
)
from offsider.core.payload import read_stamp
from offsider.logs.setup import job_level, logger, timestamp, write_enabled
from offsider.logs.structured import about_error, arguments_of, size_of

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Middleware

_NO_FIELDS: Mapping[str, object] = MappingProxyType({})


class JobLogger:
    """Writes the job log of one worker; ``log.job_log = false`` turns it off."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._silent = not config.log.job_log
        self._structured = config.log.format == "json"

    def concerns(self, job: JobContext) -> bool:
        """Return whether the run of this job is logged, at the level of its payload."""
        # Most jobs of a worker that does not log at INFO end here, without a call.
        may_be = not self._silent and (logger.level <= logging.INFO or "log_level" in job.payload)
        return may_be and logger.isEnabledFor(logging.INFO)

    def __call__(self, job: JobContext) -> Middleware:
        """Entry of the chain: log one line before and one after the run."""
        facts = _NO_FIELDS
        try:
            if self._structured:
                facts = self._facts(job)
            self._write(job, "start", facts)
        except Exception as error:  # noqa: BLE001  # a broken log filter or handler must not fail the job
            self._report(error)
        thread, cpu_started = (threading.get_ident(), time.thread_time()) if self._structured else (0, 0.0)
        started = time.perf_counter()
        outcome = yield
        seconds = time.perf_counter() - started
        try:
            if self._structured:
                fields: dict[str, object] = {
                    **facts,
                    "outcome": outcome.name,
                    "duration_s": round(seconds, 6),
                    "completed_at": timestamp(self._config.clock.now()),
                }
                if threading.get_ident() == thread:
                    fields["cpu_s"] = round(time.thread_time() - cpu_started, 6)
            else:
                fields = {"elapsed": round(seconds, 3)}
            for name, spent in job.measured_seconds.items():
                fields[f"{name}_duration_s"] = round(spent, 6)
            status = "done"
            if type(outcome) is not Succeeded:
                status = _status(outcome)
                fields |= self._details(outcome)
            self._write(job, status, fields, seconds)
        except Exception as error:  # noqa: BLE001  # as above
            self._report(error)

    def instead_of_a_run(self, job: JobContext, outcome: Outcome) -> None:
        """Log the only line of a job that does not run. A stranded job is logged at the first attempt only."""
        if isinstance(outcome, NotStarted) and not outcome.is_logged:
            return
        try:
            with job_level(job.payload.get("log_level")):
                if not self.concerns(job):
                    return
                facts = {**self._facts(job), "outcome": outcome.name} if self._structured else _NO_FIELDS
                self._write(job, _status(outcome), {**facts, **self._details(outcome)})
        except Exception as error:  # noqa: BLE001  # as above
            self._report(error)

    def _write(self, job: JobContext, status: str, fields: Mapping[str, object], seconds: float | None = None) -> None:
        message = status
        if self._structured:
            fields = {"job_status": status, **fields}
            message = f"{job.shown_name} JID-{job.jid}: {status}{'' if seconds is None else f': {seconds:.3f} sec'}"
        write_enabled(message, fields)

    def _details(self, outcome: Outcome) -> Mapping[str, object]:
        if self._structured and isinstance(outcome, Failed):
            return about_error(outcome.error)
        return _details(outcome)

    def _facts(self, job: JobContext) -> dict[str, object]:
        """Return the fields that are known before a run begins."""
        payload, now = job.payload, self._config.clock.now()
        facts: dict[str, object] = {"retry": payload.get("retry"), "attempt": job.attempt}
        if job.retry_count is not None:
            facts["retry_count"] = job.retry_count
        if job.interrupted_count:
            facts["interrupted_count"] = job.interrupted_count
        if job.rescheduled_count:
            facts["rescheduled_count"] = job.rescheduled_count
        facts["job_size_bytes"] = size_of(job)
        for key in ("created_at", "enqueued_at"):
            seconds = read_stamp(payload.get(key))
            if seconds is not None and 0 <= seconds < _YEAR_9999:
                facts[key] = timestamp(seconds)
        enqueued_at = read_stamp(payload.get("enqueued_at"))
        if enqueued_at is not None:  # never negative, even if the clocks of two machines differ
            facts["scheduling_latency_s"] = round(max(0.0, now - enqueued_at), 6)
        if self._config.log.arguments:
            facts["args"] = arguments_of(payload)
        return facts

    def _report(self, error: Exception) -> None:
        self._config.handle_error(error, {"context": "writing the job log"})


_YEAR_9999 = 253_370_764_800  # a larger number is not a valid time and cannot be formatted


def _status(outcome: Outcome) -> str:
    if isinstance(outcome, NotStarted) or (isinstance(outcome, Interrupted) and outcome.continues):
        return outcome.name
    return "fail" if isinstance(outcome, (Failed, Interrupted)) else "done"


def _details(outcome: Outcome) -> Mapping[str, object]:
    match outcome:
        case Rescheduled(delay_seconds, reason):
            again: dict[str, object] = {"again_in": delay_seconds}
            return again | {"rescheduled": shown(reason)} if reason else again
        case NotStarted(place, delay_seconds, reason, name):
            when: dict[str, object] = {"again_in": round(delay_seconds, 3)} if place in ("schedule", "queue") else {}
            kept = {"kept": place == "quarantine"} if name == "dropped" else {}
            return when | ({name.replace(" ", "_"): reason} if reason else {}) | kept
        case Discarded(error):
            return {"discarded": shown(error) or True}
        case Skipped(reason):
            return {"skipped": shown(reason) or True}
        case _:
            return _NO_FIELDS
