"""Sidekiq's counters, in total and by day, and the sizes of queues and sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import InvalidOptions
from offsider.storage import stats
from offsider.storage.activity import RATE_SECONDS
from offsider.storage.stats import QueueOverview

_COUNTERS = ("processed", "failed")
#: Sidekiq stores the counters of a day for five years.
MAX_DAYS = 1825


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """A queue at a glance.

    Attributes:
        name: name of the queue.
        size: number of jobs.
        latency_seconds: latency of the next job; 0 if unknown.
        paused: whether it is paused.
    """

    name: str
    size: int
    latency_seconds: float
    paused: bool


@dataclass(frozen=True, slots=True)
class Stats:
    """The counters and sizes of one server.

    Attributes:
        processed, failed: number of runs of all workers since the counters were reset. Our workers update them every
            second, Ruby's at each heartbeat.
        enqueued: number of jobs in all queues.
        scheduled, retries, dead: sizes of the sets.
        processes: number of processes with a heartbeat in the last minute.
        queues: size by name.
        busy: number of running jobs: of our processes as of the last second, of Ruby's as of the last heartbeat.
        processed_per_second, failed_per_second: rates of the last five seconds, of processes that report them.
        silent_processes: number of processes that report no rate (Ruby).
        default_queue_latency_seconds: latency of the queue ``default``.
        queue_summaries: every queue, sorted by name.
        held_back: number of held jobs, such as jobs over the concurrency limit of their class.
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
    processed_per_second: float = 0.0
    failed_per_second: float = 0.0
    silent_processes: int = 0

    @classmethod
    def read(cls, config: Config | Installation | None = None) -> Stats:
        """Read the current numbers in two round trips, regardless of the number of queues."""
        server = Installation.of(config)
        seen = stats.overview(server.redis)
        now = server.config.clock.now()
        reports = [process.activity for process in seen.processes.values()]
        fresh = [report for report in reports if report is not None and seen.now - report.at < RATE_SECONDS]
        summaries = tuple(_summary(queue, now) for queue in seen.queues)
        return cls(
            processed=seen.processed,
            failed=seen.failed,
            enqueued=sum(queue.size for queue in seen.queues),
            scheduled=seen.scheduled,
            retries=seen.retries,
            dead=seen.dead,
            processes=len(seen.processes),
            queues={queue.name: queue.size for queue in seen.queues},
            busy=sum(process.busy for process in seen.processes.values()),
            default_queue_latency_seconds=next(
                (one.latency_seconds for one in summaries if one.name == "default"), 0.0
            ),
            queue_summaries=summaries,
            held_back=seen.held_back,
            processed_per_second=sum(report.processed_per_second for report in fresh),
            failed_per_second=sum(report.failed_per_second for report in fresh),
            silent_processes=reports.count(None),
        )

    @staticmethod
    def reset(*names: str, config: Config | Installation | None = None) -> None:
        """Reset the counters ``"processed"`` and ``"failed"``, or one of them, to 0. The daily history stays.

        Raises:
            InvalidOptions: the counter is unknown.
        """
        for name in names:
            if name not in _COUNTERS:
                raise InvalidOptions(f"unknown counter {name!r}: choose {' or '.join(_COUNTERS)}")
        server = Installation.of(config)
        stats.reset(server.redis, names or _COUNTERS)


def _summary(queue: QueueOverview, now: float) -> QueueSummary:
    latency = 0.0 if queue.enqueued_at is None else max(0.0, now - queue.enqueued_at)
    return QueueSummary(queue.name, queue.size, latency, queue.paused)


@dataclass(frozen=True, slots=True)
class History:
    """Runs by UTC day (``"2026-11-21"``), newest first; a day without runs has 0.

    Attributes:
        processed: finished runs, successful or failed.
        failed: failed runs.
    """

    processed: dict[str, int]
    failed: dict[str, int]

    @classmethod
    def read(cls, days: int, config: Config | Installation | None = None, until: date | None = None) -> History:
        """Read a number of days up to ``until``, today by default.

        Raises:
            InvalidOptions: ``days`` is not from 1 to 1825, or the first day is before the year 1.
        """
        if not 1 <= days <= MAX_DAYS:
            raise InvalidOptions(f"days of the history must be 1 to {MAX_DAYS}, got {days}")
        server = Installation.of(config)
        last = until if until is not None else datetime.fromtimestamp(server.config.clock.now(), UTC).date()
        try:
            dates = [(last - timedelta(days=back)).isoformat() for back in range(days)]
        except OverflowError:
            raise InvalidOptions(f"{last} is too early for a history of {days} days") from None
        redis = server.redis
        processed, failed = (stats.days(redis, name, dates) for name in ("processed", "failed"))
        return cls(dict(zip(dates, processed, strict=True)), dict(zip(dates, failed, strict=True)))
