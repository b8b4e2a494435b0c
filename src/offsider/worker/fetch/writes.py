"""Writes dispositions by one script each, and retries until the server accepts them or the worker exits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from offsider.core.errors import Fenced, RedisFailure, RedisUnavailable
from offsider.logs.structured import about_raw
from offsider.runtime import outage
from offsider.runtime.outage import Outage
from offsider.storage import quarantine, working
from offsider.storage.effects import Together, run_alone
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
from offsider.worker.fetch.fetcher import Settled
from offsider.worker.requeued import RequeueLog

if TYPE_CHECKING:
    from offsider.storage.effects import Effect
    from offsider.storage.redis import Redis
    from offsider.storage.working import PrivateListEntry
    from offsider.worker.fetch.fetcher import FetcherContext
    from offsider.worker.fetch.state import FetcherState
    from offsider.worker.unit_of_work import UnitOfWork

logger = logging.getLogger("offsider")


class Writes:
    """The writes of one fetcher."""

    def __init__(self, context: FetcherContext) -> None:
        self._abandoned = context.abandoned
        self._outage = Outage(f"storing outcomes of jobs of capsule {context.capsule.name}", context.config)

    def until_taken(
        self, unit: UnitOfWork, write: Callable[[], bool], was_written: Callable[[], bool] = lambda: False
    ) -> bool | None:
        """Write, and retry after failures of the server.

        Args:
            write: returns False if another process owns the job.
            was_written: called after a lost reply; returns whether the server executed the write.

        Returns:
            The result of ``write``; None if the worker had to exit before it succeeded.
        """
        ambiguous = False
        while True:
            try:
                written = (ambiguous and was_written()) or write()
            except Fenced:
                written = False
            except RedisFailure as error:
                ambiguous = ambiguous or (isinstance(error, RedisUnavailable) and error.ambiguous)
                self._outage.noticed(error)
                if self._abandoned.wait(outage.RETRY_SECONDS):
                    logger.error(  # noqa: TRY400 - reported already
                        "cannot store the outcome of a job of queue %s: the job will run again",
                        unit.queue,
                        extra={"fields": about_raw(unit.raw, unit.queue)},
                    )
                    return None
                continue
            self._outage.over()
            return written

    def effects(self, redis: Redis, unit: UnitOfWork, effects: Sequence[Effect]) -> Sequence[Any]:
        """Run the effects of a disposition that no script writes, and return their replies; none on a failure."""
        try:
            return run_alone(redis, effects, unit.jid)
        except RedisFailure as error:
            self._outage.noticed(error)
            return ()


class ImmediateWrites:
    """The immediate writes of one capsule.

    Attributes:
        unstarted: number of jobs that were requeued before their start, because the worker is stopping.
    """

    def __init__(self, context: FetcherContext, state: FetcherState) -> None:
        self._context = context
        self._state = state
        self._writes = Writes(context)
        self.unstarted = 0

    def settle(self, unit: UnitOfWork, disposition: Disposition) -> None:
        """Write a disposition, retry until the server accepts it, and report it."""
        redis = self._context.redis
        if isinstance(disposition, (Moved, Lost)):
            self._release(unit)
            replies = self._writes.effects(redis, unit, disposition.effects)
            self._context.report([Settled(unit, disposition, lost=isinstance(disposition, Lost), replies=replies)])
            return
        together = Together(redis, disposition.effects, jids=[unit.jid])
        written = self._writes.until_taken(
            unit, lambda: self._write(together, unit.entry, disposition), lambda: self._was_written(unit)
        )
        if written is not None:
            self._release(unit)
            self._context.report([Settled(unit, disposition, lost=not written, replies=together.replies)])

    def _write(self, redis: Together, entry: PrivateListEntry, disposition: Disposition) -> bool:
        """Write a disposition by one script; False if the entry is gone."""
        config = self._context.config
        worker = config.worker
        match disposition:
            case RequeuedFirst(payload):
                return working.put_back(redis, [(entry, payload)])[0]
            case RequeuedLast():
                return working.put_last(redis, entry)
            case Later(where, payload, delay_seconds):
                sorted_set = redis.keys.retry if where == "retry" else redis.keys.schedule
                return working.postpone(redis, entry, sorted_set, payload, delay_seconds)
            case Dead(payload):
                return working.bury(redis, entry, payload, worker.dead_set_limits)
            case Quarantined(reason):
                days, most, now = worker.quarantine_days, quarantine.MAX_JOBS, config.clock.now()
                return quarantine.put_from_run(redis, entry, days=days, most=most, at=now, how=reason)
            case Done() | Moved() | Lost():  # the last two never come here
                return working.acknowledge(redis, entry)

    def _was_written(self, unit: UnitOfWork) -> bool:
        """Return whether the server executed a write whose reply was lost.

        It did not if the list contains as many equal copies as are in flight here: then none was removed (rule 5).
        """
        entry = unit.entry
        return working.copies(self._context.redis, entry) < self._state.in_flight.copies(entry)

    def give_back(self, units: Sequence[tuple[UnitOfWork, bytes]]) -> None:
        """Requeue jobs, except jobs of a fenced identity, which other processes own.

        Raises:
            RedisFailure: some may not have been requeued; the next comparison finds them.
        """
        by_identity: dict[str, list[tuple[UnitOfWork, bytes]]] = {}
        for unit, payload in units:
            by_identity.setdefault(unit.entry.owner.identity, []).append((unit, payload))
        for owned in by_identity.values():
            try:
                with suppress(Fenced):
                    working.put_back(self._context.redis, [(unit.entry, payload) for unit, payload in owned])
            except RedisFailure:
                self._state.verify()
                raise
            for unit, _ in owned:
                self._release(unit)

    def requeue(self, units: Sequence[UnitOfWork]) -> None:
        """Requeue jobs that have not started; ``units`` has the oldest first."""
        if not units:
            return
        try:
            # Requeue the newest first, so that the oldest is at the head in the end.
            self.give_back([(unit, unit.raw) for unit in reversed(units)])
            if self._state.quiet.is_set():
                self.unstarted += len(units)
                log = RequeueLog("the worker stopped before the job started", logging.INFO)
                for unit in units:
                    log.add(unit.raw, unit.queue)
        except RedisFailure as error:
            # No thread has them now. The comparison finds those that are still in our lists.
            self._state.in_flight.remove(units)
            self._context.config.handle_error(error, {"context": "requeueing jobs that had not started"})

    def _release(self, unit: UnitOfWork) -> None:
        unit.settled = True
        self._state.in_flight.remove((unit,))
