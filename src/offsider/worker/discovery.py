"""Finds new queues for capsules that serve all of them (``-q '*'``).

A queue is registered as the owner's before anything is claimed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.storage import queues
from offsider.wiring.service import Loop
from offsider.worker.outage import Outage

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config
    from offsider.worker.ownership import Ownership

PAUSE_SECONDS = 5.0


class Discovery:
    """The service that looks into the set of known queues.

    Args:
        capsules: those that serve every queue.
        wakes: by the name of a capsule, what makes its fetcher look at queues that are new.
    """

    def __init__(
        self,
        config: Config,
        redis: Redis,
        ownership: Ownership,
        capsules: Sequence[Capsule],
        wakes: Mapping[str, Callable[[], None]],
    ) -> None:
        self._redis = redis
        self._ownership = ownership
        self._capsules = capsules
        self._wakes = wakes
        self._outage = Outage("discovery of queues", config)
        self._loop = Loop("offsider-discovery", self.tick, on_error=config.handle_error)
        self.name = self._loop.name
        self.start = self._loop.start
        self.stop = self._loop.stop
        self.join = self._loop.join

    def tick(self) -> float:
        """Look once."""
        try:
            names = queues.names(self._redis)
            for capsule in self._capsules:
                self._ownership.serve(capsule.name, names)
                before = capsule.queues
                capsule.discover(names)
                if capsule.queues != before and capsule.name in self._wakes:
                    self._wakes[capsule.name]()
        except RedisFailure as error:
            self._outage.noticed(error)
        else:
            self._outage.over()
        return PAUSE_SECONDS
