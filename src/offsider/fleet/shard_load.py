"""Autoscaling: utilization, queue pressure and desired number of processes of each shard.

Workers without a shard belong to the shard ``""``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.config.queue_spec import parse_all
from offsider.core.characteristics import URGENCIES
from offsider.core.series import Load, Series
from offsider.inspector.job_metrics import FleetMetrics
from offsider.inspector.process import Process, ProcessSet
from offsider.inspector.stats import QueueSummary, Stats
from offsider.storage import run_counts

if TYPE_CHECKING:
    from offsider.config.settings import SloSection

#: Target range of thread utilization. Below it a shard has too many threads, above it too few.
ZONE = (0.23, 0.43)
#: The middle of the range, and the goal for a shard outside it.
AIM = 0.33
#: One evaluation at most doubles the processes: queue latency shows that there are too few, but not how many.
_STEEPEST = 2.0
#: No process is removed while the next job has waited for more than this share of its target.
_EASY = 0.5

_MINUTE = 60.0
_HOUR = 3600.0
#: Minutes between two points of a `Course`.
_STEP = 3


@dataclass(frozen=True, slots=True)
class ShardLoad:
    """The current load of one shard.

    Attributes:
        name: name of the shard.
        processes: number of processes, without quiet ones.
        threads: number of their threads.
        busy: number of threads that run a job.
        queues: queues that they serve; without processes, the queues of its configuration.
        used_hour, used_ten_minutes: utilization of the threads; None if there were no threads.
        pressure: latency of the worst queue divided by its target; above 1 the target is missed. Paused queues and
            queues without a target are not included.
        latest_queue: the worst queue; empty if no job waits.
        desired: desired number of processes.
        total: total load since the counters began.
    """

    name: str
    processes: int
    threads: int
    busy: int
    queues: Sequence[str]
    used_hour: float | None
    used_ten_minutes: float | None
    pressure: float
    latest_queue: str
    desired: int
    total: Load

    @property
    def used_now(self) -> float | None:
        """Current utilization of its threads."""
        return utilization(self.busy, self.threads)


@dataclass(frozen=True, slots=True)
class Course:
    """The utilization of a shard over time, one value per step.

    Attributes:
        starts_at, step_seconds: start of the first step in epoch seconds, and length of a step.
        hour, ten_minutes: over the hour, and the ten minutes, that end with the step.
        instant: over the step only. None if there were no threads, which is not the same as an idle shard.
    """

    starts_at: float
    step_seconds: float
    hour: Sequence[float | None]
    ten_minutes: Sequence[float | None]
    instant: Sequence[float | None]


class ShardLoads:
    """Reads the load that workers report by shard."""

    @classmethod
    def read(
        cls, config: Config | Installation | None = None, *, series: Sequence[Series] | None = None
    ) -> list[ShardLoad]:
        """Return every shard of a server that has processes, is configured, or ran in the last hour; sorted by name.

        Args:
            config: selects the server; default: the configuration of this process.
            series: result of `FleetMetrics.read`, to avoid a second read.

        Raises:
            RedisFailure: the server does not respond.
        """
        server = Installation.of(config)
        counted = FleetMetrics.read(server) if series is None else series
        return loads_of(server, list(ProcessSet(server)), Stats.read(server).queue_summaries, counted)

    @classmethod
    def courses(cls, hours: int = 6, config: Config | Installation | None = None) -> dict[str, Course]:
        """Return the utilization by shard over the last hours, at most 7, in steps of 3 minutes."""
        server = Installation.of(config)
        until = math.floor(server.config.clock.now() / _MINUTE) * _MINUTE  # the current minute is not complete
        starts_at = until - hours * _HOUR
        # One hour more than shown, for the first points of the hourly utilization.
        minutes = run_counts.load_minutes(server.redis, starts_at - _HOUR, until - _MINUTE)
        return {shard: _course(loads, starts_at) for shard, loads in sorted(minutes.items())}


def loads_of(
    server: Installation, processes: Iterable[Process], queues: Sequence[QueueSummary], series: Sequence[Series]
) -> list[ShardLoad]:
    """Return the same as `ShardLoads.read`, from processes, queues and series that were read before."""
    redis, now = server.redis, server.config.clock.now()
    totals, minutes = run_counts.load_totals(redis), run_counts.load_minutes(redis, now - _HOUR + _MINUTE, now)
    working: dict[str, list[Process]] = {}
    for process in processes:
        if not process.is_quiet:
            working.setdefault(process.shard, []).append(process)
    configured = {name: shard for name, shard in server.config.shards.items() if shard.server == server.name}
    waiting = {queue.name for queue in queues if queue.size and not queue.paused}
    late = _late(QueueTargets(server.config.slo, series), queues)
    loads: list[ShardLoad] = []
    for name in sorted({*working, *minutes, *configured}):
        there = working.get(name, [])
        named = [spec.name for spec in parse_all(configured[name].queues)] if name in configured else []
        served = sorted({queue for process in there for queue in process.queues} or named)
        latest = max((queue for queue in served if queue in late), key=late.__getitem__, default="")
        pressure = late.get(latest, 0.0)
        of_shard = minutes.get(name, [])
        used = _used(of_shard[-10:])
        loads.append(
            ShardLoad(
                name=name,
                processes=len(there),
                threads=sum(process.concurrency for process in there),
                busy=sum(process.busy for process in there),
                queues=served,
                used_hour=_used(of_shard),
                used_ten_minutes=used,
                pressure=pressure,
                latest_queue=latest,
                desired=desired_processes(
                    len(there),
                    waiting=not waiting.isdisjoint(served),
                    pressure=pressure,
                    used=used or 0.0,
                ),
                total=totals.get(name, Load()),
            )
        )
    return loads


class QueueTargets:
    """Target latency of each queue, by the most urgent class that has run there.

    Args:
        slo: targets by urgency.
        series: counters of runs.
    """

    def __init__(self, slo: SloSection, series: Iterable[Series]) -> None:
        self._unknown = slo.target("low").queue_seconds
        self._known: dict[str, float] = {}
        for one in series:
            queue, urgency = one.labels.get("queue", ""), one.labels.get("urgency", "low")
            seconds = slo.target(urgency if urgency in URGENCIES else "low").queue_seconds
            self._known[queue] = min(seconds, self._known.get(queue, math.inf))

    def of(self, queue: str) -> float:
        """Return the target in seconds; infinite without a target. Before the first run, low urgency is assumed."""
        return self._known.get(queue, self._unknown)


def _late(targets: QueueTargets, queues: Sequence[QueueSummary]) -> dict[str, float]:
    """Return latency divided by target latency, by queue."""
    return {
        queue.name: queue.latency_seconds / targets.of(queue.name)
        for queue in queues
        if queue.size and not queue.paused
    }


def _used(loads: Iterable[Load]) -> float | None:
    total = sum(loads, Load())
    return utilization(total.run_seconds, total.thread_seconds)


def _course(loads: Sequence[Load], starts_at: float) -> Course:
    def over(minutes: int) -> list[float | None]:
        return [_used(loads[end - minutes : end]) for end in range(60 + _STEP, len(loads) + 1, _STEP)]

    return Course(starts_at, _STEP * _MINUTE, hour=over(60), ten_minutes=over(10), instant=over(_STEP))


def utilization(execution_seconds: float, thread_seconds: float) -> float | None:
    """The share of time in which threads ran jobs; None without threads."""
    return execution_seconds / thread_seconds if thread_seconds > 0 else None


def desired_processes(alive: int, *, waiting: bool, pressure: float, used: float) -> int:
    """Return the number of processes that a shard should have.

    1. If the next job of a queue waits beyond its target (`pressure` above 1): multiply by the pressure, at most by 2.
    2. If utilization is above its range, or below it without much waiting: the number that brings it to the middle.
    3. Otherwise the current number, but at least one if jobs wait. The autoscaler has its own limits.

    Args:
        alive: current number of processes.
        waiting: a job waits in one of its queues.
        pressure: latency of the next job as a share of its target, in the worst queue.
        used: recent utilization of the threads.
    """
    late = alive * min(pressure, _STEEPEST) if pressure > 1 else 0.0
    full = used > ZONE[1] or (used < ZONE[0] and pressure <= _EASY)
    wanted = math.ceil(max(late, alive * used / AIM if full else alive) - 1e-9)
    return max(wanted, int(waiting))
