"""Finds new queues for capsules that serve all of them (``-q '*'``).

The owner registers its private list for a queue before it claims anything from that queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.runtime.service import LoopService
from offsider.storage import queues
from offsider.worker.outage import Outage

if TYPE_CHECKING:
    from offsider.config.capsule import Capsule
    from offsider.config.config import Config
    from offsider.storage.redis import Redis
    from offsider.worker.alive.ownership import Ownership

PAUSE_SECONDS = 5.0


class Discovery(LoopService):
    """The service that reads the set of known queues.

    Args:
        capsules: capsules that serve every queue.
        wakes: capsule name -> callable that makes its fetcher check new queues.
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
        super().__init__("offsider-discovery", self.tick, config.handle_error)

    def tick(self) -> float:
        """Read the queue names once."""
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
