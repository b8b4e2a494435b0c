"""One look at everything that a monitoring system asks of a server, in a handful of round trips."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsider.core.series import Series
from offsider.inspector.fleet_metrics import FleetMetrics
from offsider.inspector.parked import ParkedJobs, parked_counts, parked_jobs
from offsider.inspector.process import Process, ProcessSet
from offsider.inspector.server_info import ServerInfo
from offsider.inspector.shard_load import QueueTargets, ShardLoad, loads_of
from offsider.inspector.stats import Stats
from offsider.inspector.switches import SwitchInForce, switches_here
from offsider.inspector.work import Work, WorkSet
from offsider.storage.lag import scheduler_lag_seconds
from offsider.wiring.config import Config
from offsider.wiring.default import default_config


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """A queue, and who serves it.

    Attributes:
        name, size, latency_seconds, paused: as its summary in `Stats`.
        processes: how many serve it, and
        concurrency: how many threads these have.
        busy: jobs of it that run now.
        longest_run_seconds: how long the one that runs longest does, 0 when none does.
        target_seconds: within which time its jobs shall begin, by the most urgent class that has run there; infinite
            when all that run there may wait.
    """

    name: str
    size: int
    latency_seconds: float
    paused: bool
    processes: int
    concurrency: int
    busy: int
    longest_run_seconds: float
    target_seconds: float


@dataclass(frozen=True, slots=True)
class Fleet:
    """A look at one server and all that work for it.

    Attributes:
        at: when, in epoch seconds.
        stats: sizes and counters.
        processes: all that are registered.
        queues: those that have jobs, those that somebody serves, and those whose jobs run.
        running: (class, queue) -> jobs that run now.
        server: of the server itself.
        scheduler_lag_seconds: ``schedule`` and ``retry`` -> how late the job is that is due longest.
        series: what was counted of runs.
        shards: how busy each is.
        objective: the share of runs that shall be satisfied.
        parked: what no live worker can run.
        parked_counts: class -> how often its jobs were parked, ever.
        switches: classes whose jobs are dropped or put off.
    """

    at: float
    stats: Stats
    processes: Sequence[Process]
    queues: Sequence[QueueLoad]
    running: Mapping[tuple[str, str], int]
    server: ServerInfo
    scheduler_lag_seconds: Mapping[str, float]
    series: Sequence[Series]
    shards: Sequence[ShardLoad]
    objective: float
    parked: Sequence[ParkedJobs]
    parked_counts: Mapping[str, int]
    switches: Sequence[SwitchInForce]

    @property
    def concurrency(self) -> int:
        """Threads of all processes."""
        return sum(process.concurrency for process in self.processes)

    @property
    def busy(self) -> int:
        """Those of them that run a job."""
        return sum(process.busy for process in self.processes)

    @classmethod
    def read(cls, config: Config | None = None) -> Fleet:
        """Look now.

        Raises:
            RedisFailure: the server does not answer.
        """
        config = config if config is not None else default_config()
        stats = Stats.read(config)
        processes = list(ProcessSet(config))
        works = list(WorkSet(config))
        series = FleetMetrics.read(config)
        return cls(
            at=time.time(),
            stats=stats,
            processes=processes,
            queues=_loads(stats, processes, works, QueueTargets(config.slo, series)),
            running=Counter((work.record.name, work.queue) for work in works),
            server=ServerInfo.read(config),
            scheduler_lag_seconds=scheduler_lag_seconds(config.shared_redis()),
            series=series,
            shards=loads_of(config, processes, stats.queue_summaries, series),
            objective=config.slo.apdex_objective,
            parked=parked_jobs(config),
            parked_counts=parked_counts(config),
            switches=switches_here(config),
        )


def _loads(stats: Stats, processes: Sequence[Process], works: Sequence[Work], targets: QueueTargets) -> list[QueueLoad]:
    known = {summary.name: summary for summary in stats.queue_summaries}
    serving, threads = Counter[str](), Counter[str]()
    for process in processes:
        for queue in set(process.queues):
            serving[queue] += 1
            threads[queue] += process.concurrency
    busy = Counter(work.queue for work in works)
    longest: dict[str, float] = {}
    for work in works:
        longest[work.queue] = max(longest.get(work.queue, 0.0), work.elapsed_seconds)
    return [
        QueueLoad(
            name=name,
            size=known[name].size if name in known else 0,
            latency_seconds=known[name].latency_seconds if name in known else 0.0,
            paused=name in known and known[name].paused,
            processes=serving[name],
            concurrency=threads[name],
            busy=busy[name],
            longest_run_seconds=longest.get(name, 0.0),
            target_seconds=targets.of(name),
        )
        for name in sorted({*known, *serving, *busy})
    ]
