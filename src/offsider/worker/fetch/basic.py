"""The basic fetcher: BRPOP, as in Sidekiq's free version.

For comparison, and for servers without scripts. A popped job exists only in this process: ``kill -9`` loses it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.runtime import outage
from offsider.runtime.outage import Outage
from offsider.storage import job_sets, quarantine, queues
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
from offsider.worker.fetch.fetcher import Fetcher, FetcherContext, Settled
from offsider.worker.fetch.writes import Writes
from offsider.worker.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK_SECONDS = 2.0


class BasicFetcher(Fetcher):
    """Each thread blocks on its own connection until one of the queues has a job. It uses no private lists."""

    def __init__(self, context: FetcherContext) -> None:
        config, capsule = context.config, context.capsule
        self._ownership = context.ownership
        self._report = context.report
        self._count_claimed = context.count_claimed
        self._config = config
        self._capsule = capsule
        self._redis = context.redis
        self._writes = Writes(context)
        self._outage = Outage(f"fetcher of capsule {capsule.name}", config)
        # A read that times out before the reply arrives would lose the job in that reply.
        self._block_seconds = min(BLOCK_SECONDS, config.redis.socket_timeout_seconds / 2)
        self._quiet = threading.Event()

    def retrieve(self) -> UnitOfWork | None:
        """Wait for the next job. None once the fetcher is quiet."""
        while not self._quiet.is_set():
            try:
                unit = self._pop()
            except RedisFailure as error:
                self._outage.noticed(error)
                self._quiet.wait(outage.RETRY_SECONDS)
                continue
            self._outage.over()
            if unit is not None and not self._returned(unit):
                return unit
        return None

    def _returned(self, unit: UnitOfWork) -> bool:
        """Requeue a job that was popped after the fetcher became quiet; True if it was requeued."""
        if not self._quiet.is_set():
            return False
        try:
            self.give_back([(unit, unit.raw)])
        except RedisFailure as error:
            # Only this process has the job now, so run it rather than lose it.
            self._outage.noticed(error)
        return unit.settled

    def _pop(self) -> UnitOfWork | None:
        paused = queues.paused(self._redis)
        served = [name for name in self._capsule.fetch_order(self._config.random) if name not in paused]
        if not served:
            # BRPOP without keys is an error; Sidekiq's issue 4825.
            self._quiet.wait(self._block_seconds)
            return None
        popped = queues.pop_blocking(self._redis, served, self._block_seconds)
        if popped is None:
            return None
        unit = UnitOfWork(*popped, alone_in=self._ownership.identity)
        self._count_claimed((unit,))
        return unit

    def settle(self, unit: UnitOfWork, disposition: Disposition) -> None:
        """Write where the job goes. The pop has already removed it from its queue."""
        if self._writes.until_taken(unit, lambda: self._write(unit, disposition)) is not None:
            unit.settled = True
            replies = self._writes.effects(self._redis, unit, disposition.effects)
            self._report([Settled(unit, disposition, lost=isinstance(disposition, Lost), replies=replies)])

    def _write(self, unit: UnitOfWork, disposition: Disposition) -> bool:
        redis, worker, now = self._redis, self._config.worker, self._config.clock.now()
        match disposition:
            case RequeuedFirst(payload):
                queues.push_to_head(redis, unit.queue, payload)
            case RequeuedLast():
                queues.push_last(redis, unit.queue, unit.raw)
            case Later(where, payload, delay_seconds):
                sorted_set = redis.keys.retry if where == "retry" else redis.keys.schedule
                job_sets.add(redis, sorted_set, payload, now + delay_seconds)
            case Dead(payload):
                job_sets.bury(redis, payload, now, self._config.worker.dead_set_limits)
            case Quarantined(reason):
                days, most = worker.quarantine_days, quarantine.MAX_JOBS
                quarantine.add(redis, unit.raw, unit.queue, days=days, most=most, at=now, how=reason)
            case Done() | Moved() | Lost():
                pass
        return True

    def give_back(self, units: Sequence[tuple[UnitOfWork, bytes]]) -> None:
        """Requeue jobs at the heads of their queues."""
        for unit, payload in units:
            queues.push_to_head(self._redis, unit.queue, payload)
            unit.settled = True

    def quiet(self) -> None:
        """Stop claiming jobs. Threads that wait in `retrieve` notice within two seconds."""
        self._quiet.set()
