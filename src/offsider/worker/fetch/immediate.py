"""Writes that are not merged with other jobs' writes: one script for each disposition, and requeueing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from offsider.core.errors import Fenced, RedisFailure
from offsider.storage import quarantine, working
from offsider.storage.effects import Together
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
from offsider.worker.fetch.writes import Writes
from offsider.worker.requeued import RequeueLog

if TYPE_CHECKING:
    from offsider.storage.working import PrivateListEntry
    from offsider.worker.fetch.fetcher import FetcherContext
    from offsider.worker.fetch.state import FetcherState
    from offsider.worker.unit_of_work import UnitOfWork


class ImmediateWrites:
    """The immediate writes of one capsule.

    Args:
        doubt: called after a write that may or may not have been executed: the private lists have to be compared.

    Attributes:
        unstarted: number of jobs that were requeued before their start, because the worker is stopping.
    """

    def __init__(self, context: FetcherContext, state: FetcherState, doubt: Callable[[], None]) -> None:
        self._context = context
        self._state = state
        self._doubt = doubt
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
                self._doubt()
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
