"""All metrics, with the names that dashboards for Sidekiq already use.

1. Queues, sets and processes, with the names of Sidekiq's Prometheus exporter.
2. Runs by class and queue, with the names of GitLab's Sidekiq.
3. Other data for alerts: memory of the server, scheduler lag, paused queues.
4. State and desired number of processes of shards; runs that met their targets.
"""

from __future__ import annotations

import math
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from offsider.client.spool import SpoolUnusable
from offsider.client.spooling import Spooling
from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure
from offsider.core.series import Series, summed
from offsider.fleet.shards import QueueTargets, ShardLoad, loads_of
from offsider.inspector import FleetMetrics, JobRecord, Process, ProcessSet, Stats, Work, WorkSet
from offsider.inspector.controls import Controls
from offsider.inspector.server_info import ServerInfo
from offsider.inspector.stats import QueueSummary
from offsider.inspector.stranded import stranded_counts, stranded_jobs
from offsider.prometheus import Family, Sample, concurrency_family, running_family, series_families
from offsider.storage import run_counts, stats
from offsider.storage.due_jobs import scheduler_lag_seconds
from offsider.storage.places import Place, sample

#: Jobs that a scrape reads to estimate the waiting jobs by class: in all, and per queue at least and at most.
_SAMPLED, _MIN_SAMPLED, _MAX_SAMPLED = 5_000, 10, 1_000


def read_families(server: Installation) -> list[Family]:
    """Return all current metrics of one server, including those of extensions.

    Raises:
        RedisFailure: the server does not respond.
    """
    stats, processes, works = Stats.read(server), list(iter(ProcessSet(server))), list(iter(WorkSet(server)))
    series = FleetMetrics.read(server)
    shards = loads_of(server, processes, stats.queue_summaries, series)
    shard_of = {process.identity: process.shard for process in processes}
    return [
        *_totals(server, stats),
        *_processes(processes),
        *_queues(stats, processes, works, QueueTargets(server.config.slo, series)),
        *_shards(shards),
        _waiting(server, stats, shards),
        *_stranded(server),
        *_expired(server),
        *_controls(server),
        *_by_class(series),
        *_by_release(server),
        *series_families(series),
        running_family(
            Counter((work.record.display_class, work.queue, shard_of.get(work.process, "")) for work in works)
        ),
        concurrency_family(sum(process.concurrency for process in processes)),
        *_spool(server),
        *_extensions(server),
    ]


def _extensions(server: Installation) -> Iterator[Family]:
    for read in server.config.metric_families:
        try:
            yield from read(server)
        except RedisFailure as error:  # the failure of one extension must not hide the other metrics
            server.config.handle_error(error, {"context": "reading the metrics of an extension"})


def _spool(server: Installation) -> Iterator[Family]:
    """Return the jobs in the file of the machine that is scraped, or in the memory of the process."""
    if not server.config.client.spool:
        return
    try:
        count, _ = Spooling.of(server.config).spool.waiting().get(server.name, (0, 0.0))
    except SpoolUnusable as error:
        server.config.handle_error(error, {"context": "reading the spool"})
    else:
        text = "Jobs in the spool of a host, which wait for this server."
        yield Family.by("host", "offsider_spool_jobs", "gauge", text, {socket.gethostname(): count})


def _totals(server: Installation, stats: Stats) -> Iterator[Family]:
    info, lags = ServerInfo.read(server), scheduler_lag_seconds(server.redis)
    yield Family.of("sidekiq_processed_jobs_total", "counter", "Runs of jobs, including failed runs.", stats.processed)
    yield Family.of("sidekiq_failed_jobs_total", "counter", "Runs of jobs that failed.", stats.failed)
    for name, text, value in (
        ("enqueued_jobs", "Jobs in all queues.", stats.enqueued),
        ("scheduled_jobs", "Jobs that are scheduled for later.", stats.scheduled),
        ("retry_jobs", "Jobs that failed and will be retried.", stats.retries),
        ("dead_jobs", "Jobs that will not be retried.", stats.dead),
        ("held_back_jobs", "Jobs that extensions hold for now.", stats.held_back),
        ("apdex_objective", "Target ratio of satisfied runs.", server.config.slo.apdex_objective),
        ("redis_memory_used_bytes", "Memory that the server uses.", info.used_memory_bytes),
        ("redis_memory_max_bytes", "Memory limit of the server; 0: no limit.", info.max_memory_bytes),
    ):
        yield Family.of(f"sidekiq_{name}", "gauge", text, value)
    yield Family.by("set", "sidekiq_scheduler_lag_seconds", "gauge", "Delay of the most overdue job.", lags)


def _processes(processes: Sequence[Process]) -> Iterator[Family]:
    threads, busy = sum(process.concurrency for process in processes), sum(process.busy for process in processes)
    yield Family.of("sidekiq_workers", "gauge", "Threads of all processes.", threads)
    yield Family.of("sidekiq_busy_workers", "gauge", "Threads that run a job.", busy)
    yield Family.of("sidekiq_processes", "gauge", "Processes.", len(processes))
    counts, memory = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for process in processes:
        host = process.hostname, "true" if process.is_quiet else "false"
        counts[host] += 1
        memory[host] += process.rss_kilobytes * 1024
    for name, text, values in (
        ("processes", "Processes of a host.", counts),
        ("processes_memory_usage_bytes", "Memory used by the processes of a host.", memory),
    ):
        samples = tuple(Sample(value, {"host": host, "quiet": quiet}) for (host, quiet), value in values.items())
        yield Family(f"sidekiq_host_{name}", "gauge", text, samples)
    ages = tuple(Sample(max(0.0, time.time() - process.started_at)) for process in processes if process.leader)
    yield Family("sidekiq_leader_lifetime_seconds", "gauge", "Uptime of the leader.", ages)


def _queues(
    stats: Stats, processes: Sequence[Process], works: Sequence[Work], targets: QueueTargets
) -> Iterator[Family]:
    known = stats.queue_summaries
    serving, threads, busy = Counter[str](), Counter[str](), Counter(work.queue for work in works)
    for process in processes:
        for queue in set(process.serving):
            serving[queue] += 1
            threads[queue] += process.concurrency
    longest: dict[str, float] = {}
    for work in works:
        longest[work.queue] = max(longest.get(work.queue, 0.0), work.elapsed_seconds)
    names = sorted({*stats.queues, *serving, *busy})
    for metric, text, values in (
        ("latency_seconds", "Latency of the queue: age of its next job.", _by_name(known, "latency_seconds")),
        ("enqueued_jobs", "Jobs in the queue.", _by_name(known, "size")),
        ("paused", "1 while the queue is paused.", _by_name(known, "paused")),
        ("workers", "Threads of the processes that serve the queue.", threads),
        ("processes", "Processes that serve the queue and are not quiet.", serving),
        ("busy_workers", "Threads that run a job of the queue.", busy),
    ):
        every = {name: values.get(name, 0) for name in names}
        yield Family.by("name", f"sidekiq_queue_{metric}", "gauge", text, every)
    limits = {name: seconds for name in names if math.isfinite(seconds := targets.of(name))}
    for metric, text, values in (
        ("latency_target_seconds", "Target latency of the queue.", limits),
        ("max_processing_time_seconds", "Elapsed time of the longest running job of the queue.", longest),
    ):
        yield Family.by("name", f"sidekiq_queue_{metric}", "gauge", text, values)


def _waiting(server: Installation, stats: Stats, shards: Sequence[ShardLoad]) -> Family:
    """Return the waiting jobs by class, queue and shard, extrapolated from both ends of a long queue."""
    waiting = [name for name, size in stats.queues.items() if size]
    each = max(_MIN_SAMPLED, min(_MAX_SAMPLED, _SAMPLED // max(len(waiting), 1))) // 2
    jobs = sample(server.redis, (Place(server.redis, f"queue:{queue}") for queue in waiting), each=each)
    samples: list[Sample] = []
    for queue in waiting:
        counts = Counter(JobRecord(raw).display_class for raw in jobs.get(f"queue:{queue}", ()))
        scale = stats.queues[queue] / max(counts.total(), 1)
        for shard in [shard.name for shard in shards if queue in shard.queues] or [""]:
            for name, count in counts.items():
                samples.append(Sample(count * scale, {"class": name, "queue": queue, "shard": shard}))
    text = "Jobs that wait in a queue; estimated from a sample of a long queue."
    return Family("sidekiq_job_enqueued", "gauge", text, tuple(samples))


def _shards(found: Sequence[ShardLoad]) -> Iterator[Family]:
    for name, text, values in (
        ("processes", "Processes of the shard that are not quiet.", _by_name(found, "processes")),
        ("workers", "Threads of the shard's processes that are not quiet.", _by_name(found, "threads")),
        ("busy_workers", "Threads of the shard that run a job.", _by_name(found, "busy")),
        (
            "latency_ratio",
            "Highest ratio of latency to target in its queues.",
            _by_name(found, "pressure"),
        ),
        ("desired_replicas", "Desired number of processes.", _by_name(found, "desired")),
        ("enqueued_jobs", "Jobs in the queues of the shard.", _by_name(found, "waiting")),
    ):
        yield Family.by("shard", f"sidekiq_shard_{name}", "gauge", text, values)
    for name, text, values in (
        ("execution", "Time that the threads of the shard spent running jobs.", _by_name(found, "total.run_seconds")),
        ("thread", "Total lifetime of the threads of the shard.", _by_name(found, "total.thread_seconds")),
    ):
        yield Family.by("shard", f"sidekiq_shard_{name}_seconds_total", "counter", text, values)


def _by_name(things: Iterable[QueueSummary | ShardLoad], attribute: str) -> dict[str, float]:
    value_of = attrgetter(attribute)
    return {each.name: value_of(each) for each in things}


def _stranded(server: Installation) -> Iterator[Family]:
    now = {jobs.name: jobs.count for jobs in stranded_jobs(server)}
    text = "Number of times that jobs were stranded; each attempt counts."
    yield Family.by("class", "sidekiq_stranded_jobs", "gauge", "Jobs that no live worker can run.", now)
    yield Family.by("class", "sidekiq_jobs_stranded_total", "counter", text, stranded_counts(server))


def _expired(server: Installation) -> Iterator[Family]:
    text = "Jobs that a worker deleted because they had expired."
    yield Family.by("class", "sidekiq_jobs_expired_total", "counter", text, stats.expired_counts(server.redis))


def _controls(server: Installation) -> Iterator[Family]:
    controls = Controls(server)
    found = [(one, {"subject": one.subject, "action": one.action}) for one in controls.of_server()]
    on = tuple(Sample(1, labels) for _, labels in found)
    acted = tuple(Sample(one.acted, labels) for one, labels in found)
    yield Family("offsider_controls", "gauge", "1 for each subject that has a control.", on)
    yield Family("offsider_controlled_jobs", "gauge", "Jobs that a control deferred or dropped.", acted)
    limits = {one.subject: one.limit for one, _ in found if one.action == "limit"}
    groups = controls.groups()
    limits = {**{one.name: one.limit for one in groups if one.limit is not None}, **limits}
    for what, text, values in (
        ("", "Maximum number of concurrent runs of a group.", limits),
        ("_in_use", "Slots of a group in use.", {one.name: one.in_use for one in groups}),
        ("_held_jobs", "Held jobs of a group.", {one.name: one.held for one in groups}),
    ):
        yield Family.by("group", f"offsider_limit{what}", "gauge", text, values)


def _by_class(series: Iterable[Series]) -> Iterator[Family]:
    classes = {one.labels.get("class", ""): one for one in summed(series, ["class"])}
    for name, text, of in (
        ("processed", "Runs of the class.", attrgetter("processed")),
        ("failed", "Failed runs of the class.", attrgetter("failed")),
        ("execution_time_seconds", "Execution time of the class.", attrgetter("run_seconds")),
    ):
        values = {name: of(one) for name, one in classes.items()}
        yield Family.by("class", f"sidekiq_job_{name}", "counter", text, values)


def _by_release(server: Installation) -> Iterator[Family]:
    totals = run_counts.release_totals(server.redis)
    for name, text, of in (
        ("processed", "Runs of the class with a release of the last eight hours.", attrgetter("processed")),
        ("failed", "Failed runs of the class with a release of the last eight hours.", attrgetter("failed")),
        ("seconds", "Execution time of the class with a release, failed runs included.", attrgetter("run_seconds")),
    ):
        samples = tuple(Sample(of(one), one.labels) for one in totals)
        yield Family(f"sidekiq_release_{name}_total", "counter", text, samples)
