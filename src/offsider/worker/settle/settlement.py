"""Decides where a job goes after its run, and passes the decision to the fetcher, which writes and reports it.

If the job was requeued or settled elsewhere when its run ends, the run is void: no retry, no dead entry, no
callback and no count, only a warning (``lost ownership``) and an event; see `report`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from offsider.config.installation import Installation
from offsider.core.errors import MalformedPayload
from offsider.core.malformed import wrap
from offsider.core.outcome import (
    Deadly,
    Discarded,
    Failed,
    Interrupted,
    Malformed,
    NotStarted,
    Rescheduled,
    Skipped,
    Succeeded,
)
from offsider.core.payload import continued, decode, interrupted, not_stranded, rescheduled, stamp
from offsider.inspector import removal
from offsider.runtime.context import JobContext
from offsider.runtime.events import JobRemoved
from offsider.runtime.forks import came_back, this_process
from offsider.worker.disposition import (
    Dead,
    Disposition,
    Done,
    Later,
    Lost,
    Moved,
    Quarantined,
    RequeuedFirst,
    RequeuedLast,
)
from offsider.worker.settle.retrier import Retrier
from offsider.worker.unit_of_work import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsider.config.config import Config
    from offsider.core.outcome import Outcome
    from offsider.storage.effects import Effect
    from offsider.worker.fetch.fetcher import Fetcher
    from offsider.worker.unit_of_work import UnitOfWork

_DONE: Disposition = Done()
_LOST: Disposition = Lost()


class Settlement:
    """Settles the runs of one capsule."""

    def __init__(self, config: Config, fetcher: Fetcher) -> None:
        self._config = config
        self._fetcher = fetcher
        self._retrier = Retrier(config)
        self._last_done: Disposition = _DONE

    def settle(self, unit: UnitOfWork, run: Run, *, overran: bool = False) -> None:
        """Settle a run. A run of a settled unit is void: the last step of a stop has requeued the job, or it overran.

        Args:
            overran: the job exceeded its hard limit and still runs. The caller has marked the unit as settled, so that
                the result of its thread is void.
        """
        unit.run = run
        outcome = run.outcome
        if unit.settled and not overran:
            disposition = _LOST
        elif type(outcome) is Succeeded:  # most runs
            disposition = _DONE
        elif isinstance(outcome, Failed) and not self._fetcher.owns(unit):
            disposition = _LOST  # its callbacks would run before the write, which would be refused
        else:
            disposition = self.decide(unit, run)
        job = run.job
        if job is not None and job.effects:
            effects, job.effects = job.effects, ()
            job.again_in_seconds = disposition.delay_seconds if isinstance(disposition, Later) else 0.0
            disposition = self._with_effects(disposition, effects, outcome)
        if this_process.stray:  # a callback forked
            came_back(None if job is None else job.payload)
        self._fetcher.settle(unit, disposition)

    def decide(self, unit: UnitOfWork, run: Run) -> Disposition:
        """Choose where the job goes. Sends no command itself, but calls the job's callbacks."""
        try:
            return self._decide(unit, run)
        except BaseException as error:  # noqa: BLE001 - a retry would fail here again and again
            self._config.handle_error(
                error, {"context": "cannot decide the outcome of a job; moving it to the dead set unchanged"}
            )
            return Dead(unit.raw)

    def bury(self, unit: UnitOfWork, error: BaseException) -> None:
        """Move a job to the dead set because its threads died of ``error``. Raises RedisFailure."""
        server = Installation.of(self._config)
        effects = removal.effects_of(server, JobRemoved(unit.raw, f"queue:{unit.queue}", "kill", server.name, error))
        job: JobContext | None = None
        outcome: Outcome = Deadly(error, effects)
        try:
            job = JobContext(decode(unit.raw), unit.queue, unit.raw)
        except MalformedPayload as malformed:
            outcome = Malformed(malformed)
        self.settle(unit, Run(job, outcome, self._config.clock.now(), 0.0, None))

    def _with_effects(self, disposition: Disposition, effects: Sequence[Effect], outcome: Outcome) -> Disposition:
        """Add the effects that apply to this outcome. A void run has none."""
        if isinstance(disposition, Lost):
            return disposition
        chosen: list[Effect] = []
        for effect in effects:
            try:
                chosen += effect.applied(outcome, disposition.goes)
            except Exception as error:  # noqa: BLE001 - raised by an extension; the outcome must be written
                self._config.handle_error(error, {"context": f"running the effect {effect.script.name} of an outcome"})
        if not chosen:
            return disposition
        if disposition is not _DONE:
            return replace(disposition, effects=chosen)
        last = self._last_done
        if chosen != last.effects:  # those of most members of a batch are the same
            last = self._last_done = Done(effects=chosen)
        return last

    def _decide(self, unit: UnitOfWork, run: Run) -> Disposition:  # noqa: PLR0911 - one case for each outcome
        match run.outcome:
            case Succeeded() | Skipped():
                return _DONE
            case Deadly(error, effects):
                return replace(self._retrier.bury(_job(run), error), effects=effects)
            case Failed(error):
                return self._retrier.decide(_job(run), error)
            case Discarded():
                return self._retrier.discard(_job(run))
            case Rescheduled(delay_seconds, _, counted, counter):
                payload = not_stranded(unit.raw)
                return Later("schedule", rescheduled(payload, counter) if counted else payload, delay_seconds)
            case NotStarted() as outcome:
                return _not_started(outcome, unit)
            case Interrupted(continues=True):
                now, wire_version = self._config.clock.now(), self._config.redis.wire_version
                return RequeuedFirst(continued(unit.raw, now, wire_version))
            case Interrupted(has_started):
                return RequeuedFirst(interrupted(unit.raw) if has_started else unit.raw)
            case Malformed(error):
                return Dead(wrap(error, unit.queue, stamp(self._config.clock.now(), self._config.redis.wire_version)))


def _job(run: Run) -> JobContext:
    if run.job is None:
        msg = f"a run without a job cannot be {run.outcome.name}"
        raise TypeError(msg)
    return run.job


def _not_started(outcome: NotStarted, unit: UnitOfWork) -> Disposition:
    match outcome.place:
        case "gone":
            return _DONE
        case "queue":
            return RequeuedLast()
        case "quarantine":
            return Quarantined(outcome.reason)
        case "elsewhere":
            return Moved()
        case "schedule":
            return Later("schedule", outcome.payload or not_stranded(unit.raw), outcome.delay_seconds)
        case _:
            assert_never(outcome.place)
