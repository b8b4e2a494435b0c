"""Sidekiq's counters and the sizes of everything."""

from __future__ import annotations

from dataclasses import dataclass

from offsider.storage import job_sets, processes, queues, stats
from offsider.wiring.config import Config
from offsider.wiring.default import default_config


@dataclass(frozen=True, slots=True)
class Stats:
    """A look at one server.

    Attributes:
        processed, failed: runs since the counters began, all workers together; they lag by a heartbeat.
        enqueued: jobs in all queues.
        scheduled, retries, dead: sizes of the sets.
        processes: how many are registered.
        queues: name -> size.
    """

    processed: int
    failed: int
    enqueued: int
    scheduled: int
    retries: int
    dead: int
    processes: int
    queues: dict[str, int]

    @classmethod
    def read(cls, config: Config | None = None) -> Stats:
        """Look now."""
        config = config if config is not None else default_config()
        redis = config.shared_redis()
        processed, failed = stats.read(redis)
        sizes = {name: queues.size(redis, name) for name in queues.names(redis)}
        return cls(
            processed=processed,
            failed=failed,
            enqueued=sum(sizes.values()),
            scheduled=job_sets.size(redis, redis.keys.schedule),
            retries=job_sets.size(redis, redis.keys.retry),
            dead=job_sets.size(redis, redis.keys.dead),
            processes=len(processes.identities(redis)),
            queues=sizes,
        )
