"""Sidekiq's counters and the sizes of everything."""

from __future__ import annotations

from dataclasses import dataclass, field

from offsider.core.errors import InvalidOptions
from offsider.storage import stats
from offsider.storage.stats import QueueOverview
from offsider.wiring.config import Config
from offsider.wiring.default import default_config

_COUNTERS = ("processed", "failed")


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """A queue at a glance: jobs, how long the next one has waited (0 when unknown), whether it is paused."""

    name: str
    size: int
    latency_seconds: float
    paused: bool


@dataclass(frozen=True, slots=True)
class Stats:
    """A look at one server.

    Attributes:
        processed, failed: runs since the counters began, all workers together; they lag by a heartbeat.
        enqueued: jobs in all queues.
        scheduled, retries, dead: sizes of the sets.
        processes: how many have shown themselves within the last minute.
        queues: name -> size.
        busy: jobs that run now, in all processes.
        default_queue_latency_seconds: of the queue ``default``.
        queue_summaries: every queue, by name.
        held_back: jobs that extensions keep from running for now, such as those over the limit of their class.
    """

    processed: int
    failed: int
    enqueued: int
    scheduled: int
    retries: int
    dead: int
    processes: int
    queues: dict[str, int]
    busy: int = 0
    default_queue_latency_seconds: float = 0.0
    queue_summaries: tuple[QueueSummary, ...] = field(default=())
    held_back: int = 0

    @classmethod
    def read(cls, config: Config | None = None) -> Stats:
        """Look now; two round trips, however many queues there are."""
        config = config if config is not None else default_config()
        seen = stats.overview(config.shared_redis())
        now = config.clock.now()
        summaries = tuple(_summary(queue, now) for queue in seen.queues)
        return cls(
            processed=seen.processed,
            failed=seen.failed,
            enqueued=sum(queue.size for queue in seen.queues),
            scheduled=seen.scheduled,
            retries=seen.retries,
            dead=seen.dead,
            processes=len(seen.busy),
            queues={queue.name: queue.size for queue in seen.queues},
            busy=sum(seen.busy.values()),
            default_queue_latency_seconds=next((one.latency_seconds for one in summaries if one.name == "default"), 0),
            queue_summaries=summaries,
            held_back=seen.held_back,
        )

    @staticmethod
    def reset(*names: str, config: Config | None = None) -> None:
        """Set the counters ``"processed"`` and ``"failed"`` to 0, or one of them. The history by days stays.

        Raises:
            InvalidOptions: there is no such counter.
        """
        for name in names:
            if name not in _COUNTERS:
                raise InvalidOptions(f"there is no counter {name!r}; counters are {' and '.join(_COUNTERS)}")
        config = config if config is not None else default_config()
        stats.reset(config.shared_redis(), names or _COUNTERS)


def _summary(queue: QueueOverview, now: float) -> QueueSummary:
    latency = 0.0 if queue.enqueued_at is None else max(0.0, now - queue.enqueued_at)
    return QueueSummary(queue.name, queue.size, latency, queue.paused)
