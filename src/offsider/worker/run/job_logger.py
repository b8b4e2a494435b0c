"""The job log: one line when a job starts and one when it ends, at INFO.

It uses Sidekiq's words: ``start``, ``done``, ``fail``. The formatters add the class and jid of the job to every line
that is logged while it runs. The ``log_level`` of a payload applies to the runs of that job only.

With ``log.format = "json"`` the same words are the field ``job_status``, and the other fields are GitLab's.
Fields that are expensive to compute are computed for that format only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import nullcontext
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
from offsider.logs.setup import job_level, logger, timestamp, write_info
from offsider.logs.structured import about_error, arguments_of, size_of

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Middleware

# Without the level of a job, which applies only once the job runs.
_is_enabled = logging.Logger.isEnabledFor
_NO_FIELDS: Mapping[str, object] = MappingProxyType({})


class JobLogger:
    """Writes the job log of one worker; ``log.job_log = false`` turns it off."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._silent = not config.log.job_log
        self._structured = config.log.format == "json" and not self._silent

    def concerns(self, job: JobContext) -> bool:
        """Return whether the run of this job is logged, or its payload has a log level."""
        return "log_level" in job.payload or not (self._silent or not _is_enabled(logger, logging.INFO))

    def __call__(self, job: JobContext) -> Middleware:
        """Entry of the chain: log one line before and one after the run, at the log level of the payload."""
        level = job.payload.get("log_level")
        with nullcontext() if level is None else job_level(level):
            if self._structured:
                yield from self._between_structured_lines(job)
                return
            self._write("start", _NO_FIELDS)
            started = time.perf_counter()
            outcome = yield
            fields: dict[str, object] = {"elapsed": round(time.perf_counter() - started, 3)}
            if job.measured_seconds:
                fields |= _measured(job)
            if type(outcome) is not Succeeded:
                fields |= _details(outcome)
            self._write(_status(outcome), fields)

    def instead_of_a_run(self, job: JobContext, outcome: Outcome) -> None:
        """Log the only line of a job that does not run. A stranded job is logged at the first attempt only."""
        if not self.concerns(job) or (isinstance(outcome, NotStarted) and not outcome.is_logged):
            return
        with job_level(job.payload.get("log_level")) if "log_level" in job.payload else nullcontext():
            if self._structured:
                self._tell(job, outcome)
            else:
                self._write(_status(outcome), _details(outcome))

    def _tell(self, job: JobContext, outcome: Outcome) -> None:
        try:
            status = _status(outcome)
            fields: dict[str, object] = {"job_status": status, **self._facts(job), "outcome": outcome.name}
            fields |= about_error(outcome.error) if isinstance(outcome, Failed) else _details(outcome)
            write_info(f"{job.shown_name} JID-{job.jid}: {status}", fields)
        except Exception as error:  # noqa: BLE001  # as in `_write`
            self._report(error)

    def _between_structured_lines(self, job: JobContext) -> Middleware:
        facts = self._start(job)
        started, cpu_started = time.perf_counter(), time.thread_time()
        outcome = yield
        self._end(job, facts, outcome, time.perf_counter() - started, time.thread_time() - cpu_started)

    def _start(self, job: JobContext) -> Mapping[str, object]:
        """Log the start of a run; return the fields that both of its lines have."""
        try:
            facts = self._facts(job)
            write_info(f"{job.shown_name} JID-{job.jid}: start", {"job_status": "start", **facts})
        except Exception as error:  # noqa: BLE001  # as in `_write`
            self._report(error)
            return _NO_FIELDS
        return facts

    def _end(
        self,
        job: JobContext,
        facts: Mapping[str, object],
        outcome: Outcome,
        duration_seconds: float,
        cpu_seconds: float,
    ) -> None:
        try:
            status = _status(outcome)
            fields: dict[str, object] = {
                "job_status": status,
                **facts,
                "outcome": outcome.name,
                "duration_s": round(duration_seconds, 6),
                "cpu_s": round(cpu_seconds, 6),
                **_measured(job),
                "completed_at": timestamp(self._config.clock.now()),
                **_details(outcome),
            }
            if isinstance(outcome, Failed):
                fields |= about_error(outcome.error)
            write_info(f"{job.shown_name} JID-{job.jid}: {status}: {duration_seconds:.3f} sec", fields)
        except Exception as error:  # noqa: BLE001  # as in `_write`
            self._report(error)

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

    def _write(self, word: str, fields: Mapping[str, object]) -> None:
        if self._silent:
            return
        try:
            write_info(word, fields)
        except Exception as error:  # noqa: BLE001  # a broken log filter or handler must not fail the job
            self._report(error)

    def _report(self, error: Exception) -> None:
        self._config.handle_error(error, {"context": "writing the job log"})


_YEAR_9999 = 253_370_764_800  # a larger number is not a valid time and cannot be formatted


def _status(outcome: Outcome) -> str:
    if isinstance(outcome, NotStarted):
        return outcome.name
    return "fail" if isinstance(outcome, (Failed, Interrupted)) else "done"


def _measured(job: JobContext) -> dict[str, object]:
    return {f"{name}_duration_s": round(seconds, 6) for name, seconds in job.measured_seconds.items()}


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
