"""How busy each shard is, whether its jobs wait too long, and how many processes it should have.

Workers that were started without a shard are the shard ``""``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.core.characteristics import URGENCIES
from offsider.core.objectives import desired_processes, utilisation
from offsider.core.series import Series
from offsider.inspector.fleet_metrics import FleetMetrics
from offsider.inspector.process import Process, ProcessSet
from offsider.inspector.stats import QueueSummary, Stats
from offsider.storage import shard_loads
from offsider.storage.shard_loads import Load
from offsider.wiring.config import Config
from offsider.wiring.default import default_config
from offsider.wiring.queue_spec import parse_all

if TYPE_CHECKING:
    from offsider.wiring.settings import SloSection

_MINUTE = 60.0
_TEN_MINUTES = 600.0
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class ShardLoad:
    """One shard, now.

    Attributes:
        name: as its workers were given it.
        processes: how many there are, quiet ones left out.
        threads: how many these have, and
        busy: how many of them run a job.
        queues: what they serve; of a shard without processes what its configuration names.
        used_hour, used_ten_minutes: the share of their time that threads ran jobs; None when there were no threads.
        pressure: how long the next job of a queue has waited, as a share of what is promised, of the worst queue: above
            1 a promise is broken. Paused queues and those whose jobs may wait for ever are left out.
        latest_queue: that queue; empty when nobody waits.
        desired: how many processes it should have.
        total: what its threads did since the sums began.
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
        """The share of its threads that run a job."""
        return utilisation(self.busy, self.threads)


@dataclass(frozen=True, slots=True)
class Course:
    """The utilisation of a shard over time, a value for each step.

    Attributes:
        starts_at, step_seconds: of the first step, epoch seconds, and the width of each.
        hour, ten_minutes: over the hour, and the ten minutes, that end with the step.
        instant: over the step alone. None where there were no threads: that is no idle shard.
    """

    starts_at: float
    step_seconds: float
    hour: Sequence[float | None]
    ten_minutes: Sequence[float | None]
    instant: Sequence[float | None]


class ShardLoads:
    """Reads what workers told of their shards."""

    @classmethod
    def read(cls, config: Config | None = None, *, series: Sequence[Series] | None = None) -> list[ShardLoad]:
        """Every shard of a server that has processes, is configured, or has worked within the hour; by name.

        Args:
            config: which server; default: this process's.
            series: what `FleetMetrics` has read, by who has done so already.

        Raises:
            RedisFailure: the server does not answer.
        """
        config = config if config is not None else default_config()
        counted = FleetMetrics.read(config) if series is None else series
        return loads_of(config, list(ProcessSet(config)), Stats.read(config).queue_summaries, counted)

    @classmethod
    def courses(cls, hours: int = 6, config: Config | None = None) -> dict[str, Course]:
        """Shard -> its utilisation in the last hours, at most 7, in steps of 3 minutes."""
        config = config if config is not None else default_config()
        step = 3 * _MINUTE
        until = math.floor(config.clock.now() / _MINUTE) * _MINUTE  # the running minute is not told of in full
        starts_at = until - hours * _HOUR
        minutes = shard_loads.minutes(config.shared_redis(), starts_at - _HOUR, until)
        ends = [starts_at + step * (at + 1) for at in range(round(hours * _HOUR / step))]
        return {shard: _course(of_shard, ends, step) for shard, of_shard in sorted(minutes.items())}


def loads_of(
    config: Config, processes: Iterable[Process], queues: Sequence[QueueSummary], series: Sequence[Series]
) -> list[ShardLoad]:
    """The same as `ShardLoads.read`, for who has looked at the rest already."""
    redis, now = config.shared_redis(), config.clock.now()
    totals, minutes = shard_loads.totals(redis), shard_loads.minutes(redis, now - _HOUR + _MINUTE, now)
    working: dict[str, list[Process]] = {}
    for process in processes:
        if not process.is_quiet:
            working.setdefault(process.shard, []).append(process)
    configured = {name: shard for name, shard in config.shards.items() if shard.server == config.server}
    waiting = {queue.name for queue in queues if queue.size and not queue.paused}
    late = _late(QueueTargets(config.slo, series), queues)
    loads: list[ShardLoad] = []
    for name in sorted({*working, *minutes, *configured}):
        there = working.get(name, [])
        named = [spec.name for spec in parse_all(configured[name].queues)] if name in configured else []
        served = sorted({queue for process in there for queue in process.queues} or named)
        latest = max((queue for queue in served if queue in late), key=late.__getitem__, default="")
        pressure = late.get(latest, 0.0)
        of_shard = minutes.get(name, {})
        used = _used(of_shard, now - _TEN_MINUTES, now)
        least, most = config.slo.replicas_of(configured.get(name))
        loads.append(
            ShardLoad(
                name=name,
                processes=len(there),
                threads=sum(process.concurrency for process in there),
                busy=sum(process.busy for process in there),
                queues=served,
                used_hour=_used(of_shard, now - _HOUR, now),
                used_ten_minutes=used,
                pressure=pressure,
                latest_queue=latest,
                desired=desired_processes(
                    len(there),
                    waiting=not waiting.isdisjoint(served),
                    pressure=pressure,
                    used=used or 0.0,
                    least=least,
                    most=most,
                ),
                total=totals.get(name, Load()),
            )
        )
    return loads


class QueueTargets:
    """Within how many seconds the jobs of each queue shall begin, by the most urgent class that has run there.

    Args:
        slo: what urgencies promise.
        series: what was counted of runs.
    """

    def __init__(self, slo: SloSection, series: Iterable[Series]) -> None:
        self._unknown = slo.target("low").queue_seconds
        self._known: dict[str, float] = {}
        for one in series:
            queue, urgency = one.labels.get("queue", ""), one.labels.get("urgency", "low")
            seconds = slo.target(urgency if urgency in URGENCIES else "low").queue_seconds
            self._known[queue] = min(seconds, self._known.get(queue, math.inf))

    def of(self, queue: str) -> float:
        """Of one queue; infinite when its jobs may wait for ever. Where nothing has run yet, low urgency is assumed."""
        return self._known.get(queue, self._unknown)


def _late(targets: QueueTargets, queues: Sequence[QueueSummary]) -> dict[str, float]:
    """Queue -> how long its next job has waited, as a share of what is promised there."""
    return {
        queue.name: queue.latency_seconds / targets.of(queue.name)
        for queue in queues
        if queue.size and not queue.paused
    }


def _used(minutes: Mapping[float, Load], since: float, until: float) -> float | None:
    there = sum((load for at, load in minutes.items() if since < at + _MINUTE and at < until), Load())
    return utilisation(there.run_seconds, there.thread_seconds)


def _course(minutes: Mapping[float, Load], ends: Sequence[float], step: float) -> Course:
    def over(seconds: float) -> list[float | None]:
        return [_used(minutes, end - seconds, end) for end in ends]

    return Course(ends[0] - step, step, hour=over(_HOUR), ten_minutes=over(_TEN_MINUTES), instant=over(step))
