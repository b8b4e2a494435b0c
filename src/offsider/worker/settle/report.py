"""Reports settled runs: counters, error handlers, death handlers, events, and the warning about lost jobs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from offsider.config.config import NEXT
from offsider.core.errors import NoCapableWorker, RedisRefused
from offsider.core.outcome import (
    Discarded,
    Failed,
    Interrupted,
    Malformed,
    NotStarted,
    Succeeded,
)
from offsider.core.payload import read_stamp
from offsider.logs.structured import about_raw
from offsider.runtime.events import ExecutionFinished, JobRemoved, LostOwnership
from offsider.runtime.forks import end_child
from offsider.worker.disposition import Dead, Disposition, Done, Later, Moved
from offsider.worker.requeued import RequeueLog
from offsider.worker.settle.retrier import retry_option

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.context import JobContext
    from offsider.storage.effects import Effect
    from offsider.worker.fetch.fetcher import Settled
    from offsider.worker.run.stranded import StrandedCheck
    from offsider.worker.settle.failures import Failures
    from offsider.worker.unit_of_work import Run, UnitOfWork
    from offsider.worker.work_state import WorkState

logger = logging.getLogger("offsider")

#: How long the attempts of a job are kept after its next attempt is due: it may wait in its queue.
IN_QUEUE_SECONDS = 7 * 24 * 60 * 60.0


class Reporter:
    """Reports the runs of one worker.

    Args:
        failures: gets failed runs.
        stranded: reports jobs that could not run.
    """

    def __init__(
        self,
        config: Config,
        work_state: WorkState,
        failures: Failures | None = None,
        stranded: StrandedCheck | None = None,
    ) -> None:
        self._config = config
        self._runs = work_state.runs
        self._failures = failures
        self._stranded = stranded

    def settled(self, settled: Sequence[Settled]) -> None:
        """Report units whose dispositions are written or void. The units may be from several threads."""
        succeeded: list[UnitOfWork] = []
        for one in settled:
            run = one.unit.run
            if run is None:  # it never started
                continue
            if one.lost:
                self._lost(one.unit, run)
                continue
            if one.disposition.effects:
                self._effects_written(one, run)
            if type(run.outcome) is Succeeded:
                succeeded.append(one.unit)
            else:
                self._report(one.unit, run, one.disposition)
        if succeeded:
            self._count(succeeded)
            if self._config.events.listened("execution_finished"):
                for unit in succeeded:
                    if unit.run is not None:
                        self._emit(unit.run, unit.run.outcome.name)
        end_child()

    def _report(self, unit: UnitOfWork, run: Run, disposition: Disposition) -> None:
        outcome = run.outcome
        died = disposition.died if isinstance(disposition, (Done, Dead)) else None
        if died is not None:
            self._config.call_death_handlers(died, outcome.error if isinstance(outcome, (Failed, Discarded)) else None)
            end_child()
        if isinstance(outcome, (Failed, Malformed)):
            self._config.handle_error(outcome.error, _context(run) | {NEXT: self._next(run, disposition)})
        if run.job is None or isinstance(disposition, Moved):
            return
        match outcome:  # a job that did not start has no run to count
            case NotStarted(place):
                if place in ("gone", "quarantine"):
                    how = "expire" if outcome.name == "expired" else "delete" if place == "gone" else place
                    removed = JobRemoved(unit.raw, f"queue:{unit.queue}", how, self._config.server)
                    self._config.events.emit("job_removed", removed)
                elif self._stranded is not None:
                    self._stranded.report(run.job, outcome)
                return
            case Interrupted(has_started, continues):
                self._runs.requeued()
                why = "the worker stops" if has_started else "it has not started"
                why = "it continues at its cursor" if continues else why
                RequeueLog(why, logging.INFO).add(unit.raw, unit.queue)
                if not has_started:
                    return
            case Failed():
                self._count_failure(unit, run, run.job, outcome, disposition)
            case _:
                self._count([unit])
        self._emit(run, "died" if died is not None and isinstance(outcome, Failed) else outcome.name)

    def _next(self, run: Run, disposition: Disposition) -> str:
        """Return what happens to a failed job: ``attempt 2 of 26, next in 37 s``."""
        match disposition:
            case Later(_, _, delay_seconds):
                then = f"next in {_span(delay_seconds)}"
            case Dead():
                then = "moved to the dead set"
            case _:
                then = "discarded"
        if run.job is None or (isinstance(run.outcome, Failed) and isinstance(run.outcome.error, NoCapableWorker)):
            return then  # it has never run
        retry = retry_option(run.job.payload, run.job.declared)
        if run.job.payload.get("retry_for") is not None:
            return f"attempt {run.job.attempt}, {then}"
        most = self._config.worker.max_retries if retry is True else retry
        # Middleware may have put anything into its copy of the payload.
        return f"attempt {run.job.attempt} of {most + 1 if isinstance(most, int) else 1}, {then}"

    def _effects_written(self, settled: Settled, run: Run) -> None:
        for effect, reply in zip_longest(settled.disposition.effects, settled.replies):
            failed = isinstance(reply, bytes)
            if failed:
                self._config.handle_error(RedisRefused(reply.decode(errors="replace")), _about(effect))
            if effect.done is not None:
                try:
                    effect.done(None if failed else reply, run.outcome)
                except BaseException as error:  # noqa: BLE001 - raised by an extension; the outcome is written
                    self._config.handle_error(error, _about(effect))

    def _count(self, units: Sequence[UnitOfWork]) -> None:
        for jid in self._runs.finished(units):
            if self._failures is not None:
                self._failures.forget(jid)

    def _count_failure(
        self, unit: UnitOfWork, run: Run, job: JobContext, outcome: Failed, disposition: Disposition
    ) -> None:
        self._runs.failed(unit, run, retried=isinstance(disposition, Later))
        if self._failures is not None:
            died = isinstance(disposition, (Done, Dead)) and disposition.died is not None
            self._failures.note(run, job, outcome.error, self._kept_seconds(disposition), died=died)

    def _kept_seconds(self, disposition: Disposition) -> float | None:
        """Return how long the job remains stored from now on; None if it was deleted."""
        match disposition:
            case Later(_, _, delay_seconds):
                return delay_seconds + IN_QUEUE_SECONDS
            case Dead():
                return self._config.worker.dead_timeout_seconds
            case _:
                return None

    def _emit(self, run: Run, name: str) -> None:
        if run.job is not None:
            error = run.outcome.error if isinstance(run.outcome, Failed) else None
            queued = queued_seconds(run.job, run.started_at)
            news = ExecutionFinished(run.job, name, error, queued, run.duration_seconds, run.cpu_seconds or 0.0)
            self._config.events.emit("execution_finished", news)

    def _lost(self, unit: UnitOfWork, run: Run) -> None:
        jid = run.job.jid if run.job is not None else None
        logger.warning(
            "lost ownership of job %s of queue %s: it was requeued or finished elsewhere, so the outcome of this run "
            "(%s) is not stored",
            jid,
            unit.queue,
            run.outcome.name,
            extra={"fields": about_raw(unit.raw, unit.queue)},
        )
        if run.job is not None:
            self._config.events.emit("lost_ownership", LostOwnership(run.job, run.outcome.name))


def _span(seconds: float) -> str:
    """Return a duration in a readable unit: ``37 s``, ``12 min``, ``5 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"


def _about(effect: Effect) -> dict[str, Any]:
    return {"context": f"running the effect {effect.script.name} of an outcome"}


def _context(run: Run) -> dict[str, object]:
    if run.job is not None:
        return {"job": run.job.payload}
    raw = run.outcome.error.raw if isinstance(run.outcome, Malformed) else b""
    return {"context": "a malformed payload", "jobstr": raw}


def queued_seconds(job: JobContext | None, started_at: float) -> float | None:
    """Return the time a job spent in its queue; never negative, even if the clocks of two machines disagree."""
    enqueued_at = read_stamp(job.payload.get("enqueued_at")) if job is not None else None
    return None if enqueued_at is None else max(0.0, started_at - enqueued_at)
