"""Makes stranded jobs due at once if this worker can run them.

After the first heartbeats of a worker, and after a heartbeat that publishes a different list of jobs, this service
scans the part of the schedule with stranded jobs. Later no scan is needed: other workers hand such jobs over.
Among workers with the same jobs and queues, one at a time scans.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from offsider.core.compression import decode_plain
from offsider.core.errors import MalformedPayload
from offsider.core.payload import is_stranded, new_jid
from offsider.core.wording import counted
from offsider.jobs import registry
from offsider.runtime.service import LoopService
from offsider.storage import stranded
from offsider.storage.leases import hold_lease
from offsider.worker.run.stranded import why_not

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.storage.redis import Redis

logger = logging.getLogger("offsider")

BATCH = 100
#: Scans after a start. The later ones find jobs that other workers stranded before they saw this one.
LOOKS = 3
IDLE_SECONDS = 3600.0
#: Minimum time between two scans of workers with the same jobs and queues.
LEASE_SECONDS = 4.0
#: Maximum schedule entries read per scan. Stranded jobs behind them become due by themselves within minutes.
MOST = 200_000


class StrandedRescue(LoopService):
    """The rescue service of one worker.

    Args:
        quiet: returns whether the worker is quiet.
    """

    def __init__(self, config: Config, redis: Redis, *, quiet: Callable[[], bool]) -> None:
        self._config = config
        self._redis = redis
        self._quiet = quiet
        self._holder = new_jid()
        self._published: Mapping[str, str] = {}
        self._looks = 0
        super().__init__("offsider-stranded-rescue", self.tick, config.handle_error)
        self.wait_for_tick = self._loop.wait_for_tick

    def beaten(self) -> None:
        """Schedule scans if the heartbeat just sent has published new jobs; called after each heartbeat."""
        published = registry.signatures()
        if published != self._published:
            self._published, self._looks = published, LOOKS
        if self._looks:
            self._loop.wake()

    def tick(self) -> float:
        """Scan once, if a scan is due and any job is stranded."""
        if self._looks and not self._is_over():
            self._looks -= 1
            if stranded.is_any(self._redis) and self._has_lease():
                self._rescue()
        return IDLE_SECONDS

    def _has_lease(self) -> bool:
        group = hashlib.sha256(json.dumps([self._queues(), self._published], sort_keys=True).encode()).hexdigest()
        return hold_lease(self._redis, f"stranded-rescue:{group[:16]}", self._holder, LEASE_SECONDS)

    def _rescue(self) -> None:
        runnable = (raw for raw in self._members() if is_stranded(raw) and self._can_run(raw))
        rescued = 0
        while batch := list(islice(runnable, BATCH)):
            rescued += stranded.hasten(self._redis, batch)
        if rescued:
            logger.info("rescheduled %s that this worker can run: due now", counted(rescued, "stranded job"))

    def _members(self) -> Iterator[bytes]:
        for raw in islice(stranded.each(self._redis), MOST):
            if self._is_over():
                return
            yield raw

    def _is_over(self) -> bool:
        return self._loop.stopping or self._quiet()

    def _can_run(self, raw: bytes) -> bool:
        try:
            payload = decode_plain(raw)
        except MalformedPayload:
            return False
        queues = self._queues()
        is_served = "*" in queues or payload.get("queue", "") in queues
        return is_served and not why_not(registry.peek(payload["class"]), payload)

    def _queues(self) -> list[str]:
        capsules = self._config.capsules.values()
        return sorted({queue for capsule in capsules for queue in ("*" if capsule.all_queues else capsule.queues)})
