"""Samples the queues and the server every ten seconds, and stores the findings: one worker does it for all.

It logs each queue with jobs that no worker claims, once until a worker claims from it again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from offsider.storage.samples import SECONDS, Sampling
from offsider.worker.leased import LeasedLoop

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.storage.redis import Redis

logger = logging.getLogger("offsider")


class Sampler(LeasedLoop):
    """The service that takes samples, at full ten seconds, so that each belongs to one minute."""

    def __init__(self, config: Config, redis: Redis) -> None:
        self._sampling = Sampling(redis)
        super().__init__("sampler", "sampling queues and server", SECONDS, config, redis)

    def tick(self) -> float:
        """Take a sample if this worker holds the lease, and return the seconds until the next full ten."""
        super().tick()
        return SECONDS - self._config.clock.now() % SECONDS

    def work(self) -> None:
        """Take a sample, refresh the findings, and log new stopped queues."""
        self._sampling.add(self._config.clock.now())
        # Only the worker with the lease pays for the import.
        from offsider.inspector.findings import refresh

        for finding in refresh(self._config):
            if finding.kind == "stopped":
                logger.warning("%s", finding.sentence)
