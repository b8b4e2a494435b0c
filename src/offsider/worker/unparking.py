"""Makes parked jobs due at once when this worker can run them: at its start, and when it has learnt further ones.

At each heartbeat one small key says whether jobs are parked, and which. Only when one of them is declared here the
part of the schedule is read that parked jobs lie in, in pages, by a thread of its own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from offsider.core.compression import decode_plain
from offsider.core.errors import MalformedPayload
from offsider.core.wording import counted
from offsider.jobs import registry
from offsider.storage import parked
from offsider.storage.parked import wanted_by
from offsider.wiring.service import Loop
from offsider.worker.ability import why_not

if TYPE_CHECKING:
    from offsider.core.payload import JobPayload
    from offsider.storage.parked import Seen, Wanted
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config
    from offsider.worker.ability import Abilities

logger = logging.getLogger("offsider")

BATCH = 100
IDLE_SECONDS = 3600.0
#: A job that another worker has in its hands at this moment may be parked again a little later.
FORGET_SECONDS = 60.0


class Unparking:
    """The service of one worker.

    Args:
        quiet: tells whether the worker takes no more jobs.
    """

    def __init__(self, config: Config, redis: Redis, abilities: Abilities, *, quiet: Callable[[], bool]) -> None:
        self._config = config
        self._redis = redis
        self._abilities = abilities
        self._quiet = quiet
        #: Kinds whose jobs were all tried here, though they were made for other parameters.
        self._tried: set[Wanted] = set()
        self._ending = threading.Event()
        self._loop = Loop("offsider-unparking", self.tick, on_error=config.handle_error)
        self.name = self._loop.name
        self.start = self._loop.start
        self.join = self._loop.join
        self.wait_for_tick = self._loop.wait_for_tick

    def stop(self) -> None:
        self._ending.set()
        self._loop.stop()

    def look(self) -> None:
        """Called at each heartbeat, when others know what this worker can run. Raises RedisFailure."""
        self._abilities.flush()
        if self._own(parked.kinds(self._redis)):
            self._loop.wake()

    def tick(self) -> float:
        """Go once through what is parked."""
        kinds = self._own(parked.kinds(self._redis))
        if kinds:
            found = dict.fromkeys(kinds, 0)
            batch: list[bytes] = []
            for raw in filter(parked.is_parked, parked.each(self._redis)):
                if self._ending.is_set() or self._quiet():
                    return IDLE_SECONDS
                wanted = self._runnable(raw)
                if wanted in found:
                    found[wanted] += 1
                    batch.append(raw)
                if len(batch) == BATCH:
                    parked.hasten(self._redis, batch)
                    batch.clear()
            if batch:
                parked.hasten(self._redis, batch)
            self._conclude(kinds, found)
        return IDLE_SECONDS

    def _conclude(self, kinds: Mapping[Wanted, Seen], found: Mapping[Wanted, int]) -> None:
        self._tried.update(kinds)
        for wanted, seen in kinds.items():
            if found[wanted]:
                logger.info("%s of %s waited for a worker like this one", counted(found[wanted], "job"), wanted.name)
            elif self._config.clock.now() - seen.at > FORGET_SECONDS:
                parked.forget(self._redis, wanted)

    def _own(self, kinds: Mapping[Wanted, Seen]) -> dict[Wanted, Seen]:
        """The kinds that this worker can run, or has not tried yet."""
        if not kinds or self._quiet():
            return {}
        return {wanted: seen for wanted, seen in kinds.items() if self._may_run(wanted)}

    def _may_run(self, wanted: Wanted) -> bool:
        declared = registry.peek(wanted.name)
        if declared is None:
            return False
        return wanted not in self._tried or wanted.signature in ("", declared.signature.digest)

    def _runnable(self, raw: bytes) -> Wanted | None:
        """What a parked job wants, if this worker has it and serves its queue."""
        try:
            payload = decode_plain(raw)
        except MalformedPayload:
            return None
        serves = self._serves(payload.get("queue", ""))
        return wanted_by(payload) if serves and _can_run(payload) else None

    def _serves(self, queue: str) -> bool:
        return any(capsule.all_queues or queue in capsule.queues for capsule in self._config.capsules.values())


def _can_run(payload: JobPayload) -> bool:
    return not why_not(registry.peek(payload["class"]), payload)
