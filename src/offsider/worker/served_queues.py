"""Finds new queues for capsules that serve all of them (``-q '*'``), and names queues that a worker does not serve.

1. `Discovery` searches the keys, for 50 ms, for queues that no client has registered, registers them, and reads the set
   of queues. The owner registers its private list for a queue before it claims anything from that queue.
2. If the queues of a worker were chosen, `log_unserved` names the other queues of the application's jobs at its start.
   Queues of other servers, shards and groups in the configuration do not count. The sampler logs queues with jobs that
   no worker serves.
"""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from offsider.config.routing import QueueSpec
from offsider.core.errors import RedisRefused
from offsider.core.wording import counted, listed
from offsider.jobs.routes import unserved_on_server
from offsider.runtime.outage import Outage
from offsider.runtime.service import Loop
from offsider.storage import queues

if TYPE_CHECKING:
    from offsider.config.capsule import Capsule
    from offsider.config.config import Config
    from offsider.storage.redis import Redis
    from offsider.worker.alive.ownership import Ownership


PAUSE_SECONDS = 5.0
#: Part of each round that searches the keys.
SEARCH_SECONDS = 0.05


class Discovery(Loop):
    """The service that finds queues.

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
        self._cursor: bytes | None = b"0"
        super().__init__("offsider-discovery", self.tick, config.handle_error)

    def tick(self) -> float:
        """Find queues once."""
        with self._outage:
            self._register_others()
            names = queues.names(self._redis)
            for capsule in self._capsules:
                self._ownership.serve(capsule.name, names)
                before = capsule.queues
                capsule.discover(names)
                if capsule.queues != before and capsule.name in self._wakes:
                    self._wakes[capsule.name]()
        return PAUSE_SECONDS

    def _register_others(self) -> None:
        if self._cursor is None:
            return
        deadline = time.monotonic() + SEARCH_SECONDS
        while True:
            try:
                self._cursor, found = queues.find_unregistered(self._redis, self._cursor)
            except RedisRefused:  # this server forbids SCAN
                self._cursor = None
                return
            with suppress(RedisRefused):  # it is full
                queues.register(self._redis, found)
            if self._cursor == b"0" or time.monotonic() > deadline:
                return


logger = logging.getLogger("offsider")

MAX_NAMES = 5


def log_unserved(config: Config) -> None:
    """Name the queues of the application's jobs that this worker does not serve, at its start."""
    found = unserved_on_server(config)
    if found:
        chosen = [spec.name for capsule in config.capsules.values() for spec in capsule.specs]
        names = (*chosen, *(each.queue for each in found[:MAX_NAMES]))
        logger.info(
            "this worker does not serve %s; if no other worker does, start it with%s",
            ", ".join(f"{each.queue} ({listed(each.chosen)})" for each in found[:MAX_NAMES])
            + (f" and {counted(len(found) - MAX_NAMES, 'more queue')}" if len(found) > MAX_NAMES else ""),
            "".join(f" -q {shlex.quote(str(QueueSpec(name)))}" for name in names),
        )
