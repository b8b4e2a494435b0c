"""Shards: what they serve according to the configuration, and their state and load.

The queues of a shard are those in its configuration, and those that its workers report. For a shard with ``select``
they are the queues of the selected jobs, as far as these are declared here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.config.routing import EVERY
from offsider.config.settings import ShardSection
from offsider.core.options import URGENCIES
from offsider.core.series import Load, Series
from offsider.core.wording import listed
from offsider.inspector.job_metrics import FleetMetrics
from offsider.inspector.process import Process, ProcessSet
from offsider.inspector.stats import QueueSummary, Stats
from offsider.jobs.routes import RoutedQueue, Routes, routes_of
from offsider.storage import run_counts

if TYPE_CHECKING:
    from offsider.config.settings import SloSection


# ------------------------------------------------------------------------------ by the configuration


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The queues of a shard.

    Attributes:
        name: name of the shard.
        section: its settings.
        queues: names of its queues; empty if its query selects no job of its server.
    """

    name: str
    section: ShardSection
    queues: Sequence[str]


def plan_shards(shards: Mapping[str, ShardSection], routes: Routes) -> list[ShardPlan]:
    """Return the plan of each shard, in their order."""
    return [ShardPlan(name, shard, routes.queues_of(shard)) for name, shard in shards.items()]


def served_by(plans: Sequence[ShardPlan], beside: Collection[str] = ()) -> dict[str, set[str]]:
    """Return the queues that shards serve, by server.

    Args:
        plans: the plans of all shards.
        beside: queues that workers of every shard serve: those of additional capsules.
    """
    served: dict[str, set[str]] = {}
    for plan in plans:
        served.setdefault(plan.section.server, set(beside)).update(plan.queues)
    return served


def wrong_with(plans: Sequence[ShardPlan], found: Sequence[RoutedQueue]) -> Iterator[str]:
    """Return a sentence for each shard without work, or on another server than its jobs.

    Args:
        plans: the plans of all shards.
        found: the destinations of the declared jobs.
    """
    for plan in plans:
        if not plan.queues:
            yield (
                f"the shard {plan.name} serves nothing: no job that {plan.section.select!r} selects goes to its "
                f"server, {plan.section.server}"
            )
        for queue in _unused(plan, found):
            for other in (each for each in found if each.queue == queue):
                yield (
                    f"the shard {plan.name} serves the server {plan.section.server}, but the jobs of its queue "
                    f"{queue} go to the server {other.server}: {listed(sorted(other.chosen))}"
                )


def _unused(plan: ShardPlan, found: Sequence[RoutedQueue]) -> list[str]:
    """Return the queues of the shard to which no declared job goes, on its server."""
    used = {each.queue for each in found if each.server == plan.section.server}
    return [queue for queue in plan.queues if queue != EVERY and queue not in used]


def worth_knowing(plans: Sequence[ShardPlan], found: Sequence[RoutedQueue]) -> Iterator[str]:
    """Return a sentence for each note that may be intended: queues of two shards, and queues without declared jobs."""
    serving: dict[tuple[str, str], list[str]] = {}
    for plan in plans:
        for queue in plan.queues:
            serving.setdefault((plan.section.server, queue), []).append(plan.name)
    for (server, queue), names in sorted(serving.items()):
        if len(names) > 1:
            yield f"{RoutedQueue(server, queue)} is served by {len(names)} shards: {listed(sorted(names), len(names))}"
    anywhere = {each.queue for each in found}
    for plan in plans:
        unused = [queue for queue in _unused(plan, found) if queue not in anywhere]
        if unused:
            yield f"no declared job goes to {listed(sorted(unused))}, which the shard {plan.name} serves"


#: Target range of thread utilization. Below it a shard has too many threads, above it too few.
ZONE = (0.23, 0.43)
#: The middle of the range, and the goal for a shard outside it.
AIM = 0.33
#: One evaluation at most doubles the processes: queue latency shows that there are too few, but not how many.
_MAX_FACTOR = 2.0
#: No process is removed while the next job has waited for more than this share of its target.
_EASY = 0.5

_MINUTE = 60.0
_HOUR = 3600.0
#: Minutes of a value of the history.
_QUARTER = 15


@dataclass(frozen=True, slots=True)
class ShardLoad:
    """The current state and load of one shard.

    Attributes:
        name: name of the shard; empty for workers without a shard.
        processes: number of processes, without quiet ones.
        quiet: number of quiet processes.
        threads: number of threads of the processes that are not quiet.
        busy: number of these threads that run a job.
        queues: names of its queues.
        waiting: number of jobs in its queues.
        latency_seconds: highest latency of its queues; 0 if no job waits.
        used_hour, used_ten_minutes: utilization of the threads; None if there were no threads.
        pressure: latency of the worst queue divided by its target; above 1 the target is missed. Paused queues and
            queues without a target are not included.
        latest_queue: the worst queue; empty if no job waits.
        desired: desired number of processes.
        total: total load since the counters began.
    """

    name: str
    processes: int
    quiet: int
    threads: int
    busy: int
    queues: Sequence[str]
    waiting: int
    latency_seconds: float
    used_hour: float | None
    used_ten_minutes: float | None
    pressure: float
    latest_queue: str
    desired: int
    total: Load


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
        return loads_of(server, list(iter(ProcessSet(server))), Stats.read(server).queue_summaries, counted)

    @classmethod
    def history(cls, hours: int = 6, config: Config | Installation | None = None) -> dict[str, list[float | None]]:
        """Return the utilization by shard in each quarter of the last hours, at most 8; None without threads."""
        server = Installation.of(config)
        until = math.floor(server.config.clock.now() / _MINUTE) * _MINUTE  # the current minute is not complete
        minutes = run_counts.load_minutes(server.redis, until - hours * _HOUR, until - _MINUTE)
        return {
            shard: [_used(loads[at : at + _QUARTER]) for at in range(0, len(loads), _QUARTER)]
            for shard, loads in sorted(minutes.items())
        }


def loads_of(
    server: Installation, processes: Iterable[Process], queues: Sequence[QueueSummary], series: Sequence[Series]
) -> list[ShardLoad]:
    """Return the same as `ShardLoads.read`, from processes, queues and series that were read before."""
    redis, now = server.redis, server.config.clock.now()
    totals, minutes = run_counts.load_totals(redis), run_counts.load_minutes(redis, now - _HOUR + _MINUTE, now)
    of_shards: dict[str, list[Process]] = {}
    for process in processes:
        of_shards.setdefault(process.shard, []).append(process)
    routes, sections = routes_of(server.config), server.config.shards.items()
    configured = {name: routes.queues_of(section) for name, section in sections if section.server == server.name}
    targets = QueueTargets(server.config.slo, series)
    late = {each.name: each.latency_seconds / targets.of(each.name) for each in queues if each.size and not each.paused}
    loads: list[ShardLoad] = []
    for name in sorted({*of_shards, *minutes, *configured}):
        members = of_shards.get(name, [])
        there = [process for process in members if not process.is_quiet]
        # Workers report queues of jobs that are not declared here, and queues that the configuration does not have.
        served = {queue for process in members for queue in process.queues}.union(configured.get(name, ()))
        own = [queue for queue in queues if queue.name in served or EVERY in served]
        latest = max((queue.name for queue in own if queue.name in late), key=late.__getitem__, default="")
        pressure = late.get(latest, 0.0)
        of_shard = minutes.get(name, [])
        used = _used(of_shard[-10:])
        loads.append(
            ShardLoad(
                name=name,
                processes=len(there),
                quiet=len(members) - len(there),
                threads=sum(process.concurrency for process in there),
                busy=sum(process.busy for process in there),
                queues=sorted(served.union(queue.name for queue in own) - {EVERY}),
                waiting=sum(queue.size for queue in own),
                latency_seconds=max((queue.latency_seconds for queue in own if queue.size), default=0.0),
                used_hour=_used(of_shard),
                used_ten_minutes=used,
                pressure=pressure,
                latest_queue=latest,
                desired=desired_processes(len(there), waiting=bool(latest), pressure=pressure, used=used or 0.0),
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


def _used(loads: Iterable[Load]) -> float | None:
    total = sum(loads, Load())
    return utilization(total.run_seconds, total.thread_seconds)


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
    late = alive * min(pressure, _MAX_FACTOR) if pressure > 1 else 0.0
    full = used > ZONE[1] or (used < ZONE[0] and pressure <= _EASY)
    wanted = math.ceil(max(late, alive * used / AIM if full else alive) - 1e-9)
    return max(wanted, int(waiting))
