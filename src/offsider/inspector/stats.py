"""Sidekiq's counters, in total and by day, and the sizes of queues and sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import cast

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.config.routing import EVERY
from offsider.core.errors import InvalidOptions
from offsider.inspector.process import Process, ProcessSet
from offsider.storage import activity, clocks, hashes, queues
from offsider.storage.activity import RATE_SECONDS
from offsider.storage.scripts import Command

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
        """Read the current numbers in two round trips, regardless of the number of queues.

        A key of the wrong type counts as empty.
        """
        server = Installation.of(config)
        redis = server.redis
        keys = redis.keys
        counted: list[Command] = [
            ("GET", keys.stat("processed")),
            ("GET", keys.stat("failed")),
            ("ZCARD", keys.schedule),
            ("ZCARD", keys.retry),
            ("ZCARD", keys.dead),
        ]
        sets = (keys.queues, keys.paused, keys.processes, keys.places)
        listed: list[Command] = [("SMEMBERS", key) for key in sets]
        *replies, time = redis.pipeline([*counted, *listed, ("TIME",)], raise_errors=False)
        processed, failed, scheduled, retries, dead = map(hashes.count, replies[: len(counted)])
        names, paused, identities, lists = map(queues.readable, replies[len(counted) :])
        lengths: list[Command] = [("LLEN", key) for key in (*map(keys.queue, names), *lists)]
        reported: list[Command] = [("HMGET", keys.process(one), "info", "busy", activity.FIELD) for one in identities]
        oldest = [queues.oldest_command(redis, names)] if names else []
        commands = [*lengths, *reported, *oldest]
        replies = redis.pipeline(commands, raise_errors=False) if commands else []
        enqueued_at = queues.enqueued_at(redis, names, replies[-1]) if names else []
        sizes = [*map(hashes.count, replies[: len(lengths)])]
        now = server.config.clock.now()
        summaries = tuple(
            QueueSummary(name, size, 0.0 if since is None else max(0.0, now - since), name in paused)
            for name, size, since in zip(names, sizes, enqueued_at, strict=False)
        )
        processes = [
            cast("list[bytes | None]", reply)
            for reply in replies[len(lengths) : len(lengths) + len(reported)]
            if isinstance(reply, list) and reply[0] is not None
        ]
        reports = [activity.parse(report) for _, _, report in processes]
        server_now = clocks.seconds_of(time)
        fresh = [report for report in reports if report is not None and server_now - report.at < RATE_SECONDS]
        return cls(
            processed=processed,
            failed=failed,
            enqueued=sum(sizes[: len(names)]),
            scheduled=scheduled,
            retries=retries,
            dead=dead,
            processes=len(processes),
            queues={queue.name: queue.size for queue in summaries},
            busy=sum(hashes.count(busy) for _, busy, _ in processes),
            default_queue_latency_seconds=next(
                (one.latency_seconds for one in summaries if one.name == "default"), 0.0
            ),
            queue_summaries=summaries,
            held_back=sum(sizes[len(names) :]),
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
        keys = server.redis.keys
        server.redis.pipeline([("SET", keys.stat(name), 0) for name in names or _COUNTERS])


@dataclass(frozen=True)
class ServerLook:
    """The queues and processes of one server.

    Attributes:
        queues: every queue, sorted by name.
        processes: every registered process.
    """

    queues: Sequence[QueueSummary]
    processes: Sequence[Process]

    @classmethod
    def read(cls, config: Config | Installation | None = None) -> ServerLook:
        """Read the current state. Raises RedisFailure."""
        server = Installation.of(config)
        return cls(Stats.read(server).queue_summaries, list(iter(ProcessSet(server))))

    @cached_property
    def served(self) -> frozenset[str]:
        """The queues from which processes claim jobs; ``*`` means all. Quiet processes claim none."""
        return frozenset(queue for process in self.processes for queue in process.serving)

    @cached_property
    def _by_queue(self) -> Mapping[str, Sequence[Process]]:
        found: dict[str, list[Process]] = {}
        for process in self.processes:
            for queue in process.queues:
                found.setdefault(queue, []).append(process)
        return found

    def listed(self, queue: str) -> list[Process]:
        """Return the processes that serve a queue, or served it before they became quiet."""
        of_all = (process for process in self._by_queue.get(EVERY, ()) if queue not in process.queues)
        return [*self._by_queue.get(queue, ()), *of_all]

    def is_served(self, queue: str) -> bool:
        """Whether a process claims jobs from a queue."""
        return not self.served.isdisjoint((queue, EVERY))

    def is_counted(self, queue: str) -> bool:
        """Whether all claims of a queue are counted. Those of Ruby's workers are not."""
        return not any(process.is_ruby for process in self.listed(queue))


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
        processed, failed = (
            map(hashes.count, redis.call("MGET", *(redis.keys.stat_day(name, date) for date in dates)))
            for name in _COUNTERS
        )
        return cls(dict(zip(dates, processed, strict=True)), dict(zip(dates, failed, strict=True)))
