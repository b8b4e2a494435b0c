"""What is told of a run whose outcome is settled: the error, the counts, and the event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsider.core.payload import read_stamp
from offsider.wiring.events import ExecutionFinished, JobRemoved
from offsider.worker.outcome import Deferred, Dropped, Failed, Interrupted, Malformed, Parked

if TYPE_CHECKING:
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext
    from offsider.worker.ability import Abilities
    from offsider.worker.failures import Failures
    from offsider.worker.outcome import Run
    from offsider.worker.unit_of_work import UnitOfWork
    from offsider.worker.work_state import WorkState


class Reporter:
    """Tells of the runs of one worker.

    Args:
        failures: told of failed runs.
        abilities: told of jobs that could not run.
    """

    def __init__(
        self,
        config: Config,
        work_state: WorkState,
        failures: Failures | None = None,
        abilities: Abilities | None = None,
    ) -> None:
        self._config = config
        self._work_state = work_state
        self._tallies = work_state.tallies if config.worker.metrics else None
        self._failures = failures
        self._abilities = abilities

    def finished(self, units: Sequence[UnitOfWork]) -> None:
        """These jobs are done, and their acknowledgement was answered."""
        self._work_state.count(len(units))
        if self._tallies is not None:
            for jid in self._tallies.finished(units):
                if self._failures is not None:
                    self._failures.forget(jid)
        if self._config.events.listened("execution_finished"):
            for unit in units:
                if unit.run is not None:
                    self._emit(unit, unit.run, unit.run.outcome.name)

    def settled(self, unit: UnitOfWork, run: Run, *, died: bool) -> None:
        """Any other outcome was written."""
        outcome = run.outcome
        if isinstance(outcome, (Failed, Malformed)):
            self._config.handle_error(outcome.error, _context(run))
        if run.job is None:
            return
        if isinstance(outcome, Parked):  # it has not begun, so there is no run to count
            if self._abilities is not None:
                self._abilities.tell(run.job, outcome)
            return
        if isinstance(outcome, Deferred):  # nor has this
            return
        if isinstance(outcome, Dropped):
            how = "quarantine" if outcome.keep else "delete"
            self._config.events.emit(
                "job_removed", JobRemoved(unit.raw, f"queue:{unit.queue}", how, self._config.server)
            )
            return
        if not isinstance(outcome, Interrupted):
            self._work_state.count(failed=isinstance(outcome, Failed))
            self._tally(unit, run, run.job, died=died)
        self._emit(unit, run, "died" if died and isinstance(outcome, Failed) else outcome.name)

    def _tally(self, unit: UnitOfWork, run: Run, job: JobContext, *, died: bool) -> None:
        if self._tallies is None:
            return
        if not isinstance(run.outcome, Failed):
            unit.run = run
            self._tallies.finished([unit])
            return
        self._tallies.failed(unit, run, retried=not died)
        if self._failures is not None:
            self._failures.note(job, run.outcome.error, run.duration_seconds, run.kept_seconds)

    def _emit(self, unit: UnitOfWork, run: Run, name: str) -> None:
        if run.job is not None:
            error = run.outcome.error if isinstance(run.outcome, Failed) else None
            queued = queued_seconds(run.job, unit.started_at)
            news = ExecutionFinished(run.job, name, error, queued, run.duration_seconds, run.cpu_seconds or 0.0)
            self._config.events.emit("execution_finished", news)


def _context(run: Run) -> dict[str, object]:
    if run.job is not None:
        return {"job": run.job.payload}
    raw = run.outcome.error.raw if isinstance(run.outcome, Malformed) else b""
    return {"context": "a malformed payload", "jobstr": raw}


def queued_seconds(job: JobContext | None, started_at: float) -> float | None:
    """How long a job lay in its queue; never negative, whatever the clocks of two machines say."""
    enqueued_at = read_stamp(job.payload.get("enqueued_at")) if job is not None else None
    return None if enqueued_at is None else max(0.0, started_at - enqueued_at)
