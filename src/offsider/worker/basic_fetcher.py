"""The basic fetcher: BRPOP, as Sidekiq's free version does it.

For comparison, and for servers without scripts. A job that was popped lives in this process alone:
``kill -9`` loses it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.storage import queues
from offsider.worker.outage import Outage
from offsider.worker.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config
    from offsider.worker.ownership import Ownership

BLOCK_SECONDS = 2.0
OUTAGE_SECONDS = 1.0


class BasicFetcher:
    """Each thread blocks on its own connection until one of the queues has a job. It owns no private lists."""

    def __init__(self, config: Config, capsule: Capsule, ownership: Ownership) -> None:
        self._ownership = ownership
        self._config = config
        self._capsule = capsule
        self._redis = capsule.redis
        self._outage = Outage(f"fetcher of capsule {capsule.name}", config)
        # A read that gave up before the server answers would lose the job that this answer brings.
        self._block_seconds = min(BLOCK_SECONDS, config.redis.socket_timeout_seconds / 2)
        self._quiet = threading.Event()

    def retrieve(self) -> UnitOfWork | None:
        """The next job; waits for one. None once the fetcher is quiet."""
        while not self._quiet.is_set():
            try:
                unit = self._pop()
            except RedisFailure as error:
                self._outage.noticed(error)
                self._quiet.wait(OUTAGE_SECONDS)
                continue
            self._outage.over()
            if unit is not None and not self._returned(unit):
                return unit
        return None

    def _returned(self, unit: UnitOfWork) -> bool:
        """A pop that was under way when the fetcher became quiet may still answer: that job goes back unrun."""
        if not self._quiet.is_set():
            return False
        try:
            self.requeue(unit)
        except RedisFailure as error:
            # This process alone has the job now, so rather run it than lose it.
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
        unit = UnitOfWork(*popped)
        unit.alone_in = self._ownership.identity
        return unit

    def acknowledge(self, unit: UnitOfWork) -> bool:
        """There is nothing to remove: the pop did."""
        unit.settled = True
        return True

    def requeue(self, unit: UnitOfWork) -> None:
        """The job goes back to the head of its queue."""
        self.bulk_requeue([unit])

    def bulk_requeue(self, units: Sequence[UnitOfWork]) -> None:
        """All these jobs go back."""
        for unit in units:
            queues.push_to_head(self._redis, unit.queue, unit.put_back)
            unit.settled = True

    def quiet(self) -> None:
        """Take no further jobs. Who waits in `retrieve` notices within two seconds."""
        self._quiet.set()
