"""Where every outcome is written, and nowhere else.

Each outcome is one script that acts only while the job's entry is still in the own list. When it is gone
the run was void: somebody else owns the job, so there is no retry, no dead entry, no callback and no
count, but one warning, ``lost ownership``, and an event.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from copy import copy
from enum import Enum
from typing import TYPE_CHECKING

from offsider.core.errors import Fenced, RedisFailure, RedisUnavailable
from offsider.storage import job_sets, quarantine, working
from offsider.storage.working import DeadSetLimits
from offsider.wiring.events import LostOwnership
from offsider.worker.ability import no_longer_parked
from offsider.worker.fetcher import ReliableFetcher
from offsider.worker.outage import Outage
from offsider.worker.outcome import (
    Deferred,
    Discarded,
    Dropped,
    Failed,
    Interrupted,
    Malformed,
    Moved,
    Outcome,
    Parked,
    Rescheduled,
    Skipped,
    Succeeded,
    Unwritten,
)
from offsider.worker.retrier import Bury, Decision, Drop, Retrier, Retry

if TYPE_CHECKING:
    from offsider.core.payload import JobPayload
    from offsider.storage.redis import Redis
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config
    from offsider.wiring.context import JobContext
    from offsider.worker.outcome import Run
    from offsider.worker.report import Reporter
    from offsider.worker.unit_of_work import Fetcher, UnitOfWork

logger = logging.getLogger("offsider")

OUTAGE_SECONDS = 1.0
#: What is noted of a job is kept for so long after it is due again: it may have to wait for its turn.
IN_QUEUE_SECONDS = 7 * 24 * 60 * 60.0


class Settled(Enum):
    """What became of an outcome."""

    WRITTEN = "written"
    #: The job is done, and the fetcher tells `Settlement` when the server has answered its acknowledgement.
    HANDED_OVER = "handed over"
    #: Written, and the job died of it: no further try.
    DIED = "died"
    #: A middleware has stored the job elsewhere.
    MOVED = "moved"
    #: Void, because another process owns the job.
    LOST = "lost"
    #: Redis did not take it before the worker had to go.
    UNWRITTEN = "unwritten"


class Settlement:
    """Writes the outcomes of one capsule.

    Args:
        abandoned: set when the worker has given up waiting; a settle that Redis does not take then ends.
    """

    def __init__(
        self, config: Config, capsule: Capsule, fetcher: Fetcher, reporter: Reporter, abandoned: threading.Event
    ) -> None:
        self._config = config
        self._reporter = reporter
        self._redis: Redis = capsule.redis
        self._fetcher = fetcher
        self._retrier = Retrier(config)
        self._limits = DeadSetLimits(config.worker.dead_max_jobs, config.worker.dead_timeout_seconds)
        self._abandoned = abandoned
        self._outage = Outage(f"settling jobs of capsule {capsule.name}", config)
        self._finisher = fetcher if isinstance(fetcher, ReliableFetcher) else None
        if self._finisher is not None:
            self._finisher.on_settled = self._acknowledged

    def settle(self, unit: UnitOfWork, run: Run) -> Settled:
        """Write the outcome of a run."""
        if self._finisher is not None and isinstance(run.outcome, (Succeeded, Skipped)) and not unit.settled:
            self._finisher.finish(unit, run)
            return Settled.HANDED_OVER
        outcome = run.outcome
        if isinstance(outcome, Moved):
            return self._moved(unit)
        if self._decided_elsewhere(unit, run.outcome):
            return self._lost(unit, run)
        try:
            write, died = self._plan(unit, run, outcome)
        except Exception as error:  # noqa: BLE001 - run again, it would end here again: once more, and for ever
            self._config.handle_error(error, {"context": "no outcome could be decided; the job is in the dead set"})
            write, died = self._bury(unit, unit.raw), None
        try:
            written = self._write(unit, write)
        except RedisFailure:
            logger.error("the outcome of a job of queue %s could not be written; it will run again", unit.queue)  # noqa: TRY400 - reported already
            return Settled.UNWRITTEN
        if not written:
            return self._lost(unit, run)
        if died is not None:
            self._tell_death_handlers(died, run.outcome)
        return Settled.WRITTEN if died is None else Settled.DIED

    def settle_without_its_thread(self, unit: UnitOfWork, run: Run) -> Settled:
        """Write the outcome of a job that still runs; what its thread makes of it later is void."""
        stand_in = copy(unit)
        unit.settled = True
        stand_in.settled = False
        settled = self.settle(stand_in, run)
        if settled is not Settled.UNWRITTEN:
            self._release(unit)
        return settled

    def _decided_elsewhere(self, unit: UnitOfWork, outcome: Outcome) -> bool:
        if unit.settled:  # given back while it still ran, in the last step of a stop
            return True
        # A job's callbacks run before its outcome is written, so make sure first that it is ours to decide.
        if unit.entry is None or not isinstance(outcome, Failed):
            return False
        try:
            return not working.owns(self._redis, unit.entry)
        except RedisFailure:
            return False

    def _moved(self, unit: UnitOfWork) -> Settled:
        """The job left its private list by a script that was not ours: let go of it, whoever has it by now."""
        if unit.entry is None:
            self._fetcher.acknowledge(unit)  # what such a fetcher has to forget, it forgets by itself
        elif not unit.settled:
            self._release(unit)
        unit.settled = True
        return Settled.MOVED

    def _plan(self, unit: UnitOfWork, run: Run, outcome: Unwritten) -> tuple[Callable[[], bool], JobPayload | None]:
        """How the outcome is written, and the payload for the death handlers if the job died of it."""
        match outcome:
            case Succeeded() | Skipped():
                return self._acknowledge(unit), None
            case Rescheduled() | Parked() | Deferred():
                payload = outcome.payload if isinstance(outcome, Parked) else no_longer_parked(unit.raw)
                return self._postpone(unit, self._redis.keys.schedule, payload, outcome.delay_seconds), None
            case Dropped(reason, keep):
                return (self._put_aside(unit, reason) if keep else self._acknowledge(unit)), None
            case Interrupted():
                return self._requeue(unit), None
            case Malformed():
                return self._bury(unit, unit.raw), None
            case Discarded() | Failed():
                failed, job = isinstance(outcome, Failed), _job(run)
                decision = self._retrier.decide(job, outcome.error) if failed else self._retrier.discard(job)
                return self._carry_out(unit, run, decision)

    def _carry_out(
        self, unit: UnitOfWork, run: Run, decision: Decision
    ) -> tuple[Callable[[], bool], JobPayload | None]:
        match decision:
            case Retry(payload, delay_seconds):
                run.kept_seconds = delay_seconds + IN_QUEUE_SECONDS
                return self._postpone(unit, self._redis.keys.retry, payload, delay_seconds), None
            case Bury(payload, dead):
                run.kept_seconds = self._limits.timeout_seconds
                return self._bury(unit, payload), dead
            case Drop(dead):
                return self._acknowledge(unit), dead

    # --- the six ways to write -------------------------------------------------------------------

    def _acknowledge(self, unit: UnitOfWork) -> Callable[[], bool]:
        return lambda: self._fetcher.acknowledge(unit)

    def _requeue(self, unit: UnitOfWork) -> Callable[[], bool]:
        def write() -> bool:
            if unit.entry is None:
                self._fetcher.requeue(unit)
                return True
            return working.put_back(self._redis, [(unit.entry, unit.put_back)])[0]

        return write

    def _postpone(self, unit: UnitOfWork, sorted_set: str, payload: bytes, delay_seconds: float) -> Callable[[], bool]:
        def write() -> bool:
            if unit.entry is None:
                job_sets.add(self._redis, sorted_set, payload, self._config.clock.now() + delay_seconds)
                return self._fetcher.acknowledge(unit)
            return working.postpone(self._redis, unit.entry, sorted_set, payload, delay_seconds)

        return write

    def _bury(self, unit: UnitOfWork, payload: bytes) -> Callable[[], bool]:
        def write() -> bool:
            if unit.entry is None:
                job_sets.bury(self._redis, payload, self._config.clock.now(), self._limits)
                return self._fetcher.acknowledge(unit)
            return working.bury(self._redis, unit.entry, payload, self._limits)

        return write

    def _put_aside(self, unit: UnitOfWork, reason: str) -> Callable[[], bool]:
        def write() -> bool:
            days, most = self._config.worker.quarantine_days, self._config.worker.quarantine_max_jobs
            now = self._config.clock.now()
            if unit.entry is None:
                quarantine.add(self._redis, unit.raw, unit.queue, days=days, most=most, at=now, how=reason)
                return self._fetcher.acknowledge(unit)
            return quarantine.put_from_run(self._redis, unit.entry, days=days, most=most, at=now, how=reason)

        return write

    # --- until Redis has taken it ------------------------------------------------------------------

    def _write(self, unit: UnitOfWork, write: Callable[[], bool]) -> bool:
        """Write, and again after failures of Redis for as long as the worker lives.

        Raises:
            RedisFailure: the worker has given up waiting.
        """
        doubtful = False
        while True:
            try:
                written = (doubtful and self._was_written(unit)) or write()
            except Fenced:
                written = False
            except RedisFailure as error:
                doubtful = doubtful or (isinstance(error, RedisUnavailable) and error.ambiguous)
                self._outage.noticed(error)
                if self._abandoned.wait(OUTAGE_SECONDS):
                    raise
                continue
            self._outage.over()
            self._release(unit)
            return written

    def _was_written(self, unit: UnitOfWork) -> bool:
        fetcher = self._fetcher
        if unit.entry is None or not isinstance(fetcher, ReliableFetcher):
            return False
        return not fetcher.still_mine(unit)

    def _release(self, unit: UnitOfWork) -> None:
        if unit.entry is not None and isinstance(self._fetcher, ReliableFetcher):
            self._fetcher.release(unit)
        unit.settled = True

    # --- what follows --------------------------------------------------------------------------------

    def _acknowledged(self, units: Sequence[UnitOfWork], gone: Sequence[int]) -> None:
        """The server has answered: these are done, but for those at the places of ``gone``."""
        if gone:
            void = set(gone)
            for place in gone:
                run = units[place].run
                if run is not None:
                    self._lost(units[place], run)
            units = [unit for place, unit in enumerate(units) if place not in void]
        self._reporter.finished(units)

    def _lost(self, unit: UnitOfWork, run: Run) -> Settled:
        if unit.entry is not None and not unit.settled:
            self._release(unit)
        jid = run.job.jid if run.job is not None else None
        logger.warning(
            "lost ownership of job %s of queue %s: its run (%s) is void, another process has it",
            jid,
            unit.queue,
            run.outcome.name,
        )
        if run.job is not None:
            self._config.events.emit("lost_ownership", LostOwnership(run.job, run.outcome.name))
        return Settled.LOST

    def _tell_death_handlers(self, payload: JobPayload, outcome: Outcome) -> None:
        error = outcome.error if isinstance(outcome, (Failed, Discarded)) else None
        for handler in self._config.death_handlers:
            try:
                handler(payload, error)
            except BaseException as own:  # noqa: BLE001 - a broken handler must not keep the others from being told
                self._config.handle_error(own, {"context": "a death handler", "job": payload})


def _job(run: Run) -> JobContext:
    if run.job is None:
        msg = f"a run without a job cannot be {run.outcome.name}"
        raise TypeError(msg)
    return run.job
