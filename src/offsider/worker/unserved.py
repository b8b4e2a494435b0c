"""Warns about queues of the application's jobs that this worker does not serve, because its queues were chosen.

1. At the start, one line names the queues and their jobs.
2. Every minute, the service checks whether jobs wait in these queues. If no process serves one, a warning names it,
   once until a process has served it.

Queues of other servers, shards and groups in the configuration do not count.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsider.config.installation import Installation
from offsider.config.queue_spec import EVERY, QueueSpec
from offsider.core.wording import counted, listed
from offsider.inspector.process import ProcessSet
from offsider.jobs.query_queues import unserved_here
from offsider.runtime.service import LoopService
from offsider.storage.sample import lengths

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.storage.redis import Redis

logger = logging.getLogger("offsider")

CHECK_SECONDS = 60.0
MAX_NAMES = 5


class UnservedQueues(LoopService):
    """The service of one worker; it does nothing if there are no such queues."""

    def __init__(self, config: Config, redis: Redis) -> None:
        self._config = config
        self._redis = redis
        self._queues: Sequence[str] = ()
        self._warned: set[str] = set()
        self._begun = False
        super().__init__("offsider-unserved-queues", self.tick, config.handle_error)

    def start(self) -> None:
        found = unserved_here(self._config)
        if not found:
            return
        self._queues = [each.queue for each in found]
        chosen = [spec.name for capsule in self._config.capsules.values() for spec in capsule.specs]
        logger.info(
            "this worker does not serve %s; if no other worker does, start it with%s",
            ", ".join(f"{each.queue} ({listed(each.chosen)})" for each in found[:MAX_NAMES])
            + (f" and {counted(len(found) - MAX_NAMES, 'more queue')}" if len(found) > MAX_NAMES else ""),
            "".join(f" {_option(name)}" for name in (*chosen, *self._queues[:MAX_NAMES])),
        )
        super().start()

    def tick(self) -> float:
        """Check once; the first call only waits, because the other workers of a deploy may start a moment later."""
        if self._begun:
            self.look()
        self._begun = True
        return CHECK_SECONDS

    def look(self) -> None:
        """Warn about queues with jobs that no live process serves. Raises RedisFailure."""
        waiting = {queue: size for queue, size in lengths(self._redis, self._queues).items() if size}
        if waiting:
            served = {queue for process in ProcessSet(Installation.of(self._config)) for queue in process.serving}
            waiting = {queue: size for queue, size in waiting.items() if not served & {queue, EVERY}}
        lonely = set(waiting)
        for queue in sorted(lonely - self._warned):
            logger.warning(
                "%s waiting in the queue %s, which no running process serves: start a worker with %s",
                f"{counted(waiting[queue], 'job')} {'is' if waiting[queue] == 1 else 'are'}",
                queue,
                _option(queue),
            )
        self._warned = lonely


def _option(queue: str) -> str:
    """Return the option of a worker that serves the queue, quoted for a shell."""
    return f"-q {shlex.quote(str(QueueSpec(queue)))}"
