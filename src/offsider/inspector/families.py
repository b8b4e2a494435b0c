"""Which metrics there are, by the names that dashboards for Sidekiq know already.

1. What the Prometheus exporter of Sidekiq tells of queues, sets and processes.
2. What GitLab's Sidekiq tells of runs, class by class and queue by queue.
3. What else an alert needs: the memory of the server, late schedulers, paused queues.
4. How shards fare, and how many processes an autoscaler should give each; which runs kept what was promised.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from offsider.core.errors import RedisFailure
from offsider.core.series import BOUNDS_SECONDS, Series
from offsider.inspector.family import Family, Kind, Labels, Sample, number
from offsider.inspector.fleet import Fleet
from offsider.wiring.config import Config

#: What no name of a label may have, that of an extension's own included.
_LABEL = re.compile(r"^(?=\d)|[^a-zA-Z0-9_]|^le$")


def fleet_families(fleet: Fleet) -> list[Family]:
    """What `fleet_text` says, as values."""
    return [
        *_totals(fleet),
        *_processes(fleet),
        *_queues(fleet),
        *_shards(fleet),
        *_scheduler(fleet),
        *_parked(fleet),
        *_switches(fleet),
        *_memory(fleet),
        *_by_class(fleet.series),
        *series_families(fleet.series),
        running_family(fleet.running),
        concurrency_family(fleet.concurrency),
    ]


def families_of_extensions(config: Config) -> list[Family]:
    """What installed extensions tell of a server. One that cannot be asked does not keep the others from telling."""
    families: list[Family] = []
    for tell in config.metric_families:
        try:
            families += tell(config)
        except RedisFailure as error:
            config.handle_error(error, {"context": "metrics of an extension"})
    return families


def _totals(fleet: Fleet) -> list[Family]:
    stats = fleet.stats
    return [
        _single("sidekiq_processed_jobs_total", "counter", "Runs of jobs, failed ones included.", stats.processed),
        _single("sidekiq_failed_jobs_total", "counter", "Runs of jobs that failed.", stats.failed),
        _single("sidekiq_busy_workers", "gauge", "Threads that run a job.", fleet.busy),
        _single("sidekiq_enqueued_jobs", "gauge", "Jobs in all queues.", stats.enqueued),
        _single("sidekiq_scheduled_jobs", "gauge", "Jobs that are due later.", stats.scheduled),
        _single("sidekiq_retry_jobs", "gauge", "Jobs that failed and will be tried again.", stats.retries),
        _single("sidekiq_dead_jobs", "gauge", "Jobs that will not be tried again.", stats.dead),
        _single("sidekiq_held_back_jobs", "gauge", "Jobs that extensions keep from running for now.", stats.held_back),
    ]


def _processes(fleet: Fleet) -> list[Family]:
    counts: dict[tuple[str, str], int] = {}
    memory: dict[tuple[str, str], int] = {}
    for process in fleet.processes:
        place = process.hostname, "true" if process.is_quiet else "false"
        counts[place] = counts.get(place, 0) + 1
        memory[place] = memory.get(place, 0) + process.rss_kilobytes * 1024
    hosts = [Sample(count, _place(place)) for place, count in counts.items()]
    held = [Sample(held, _place(place)) for place, held in memory.items()]
    leading = [Sample(max(0.0, fleet.at - process.started_at)) for process in fleet.processes if process.leader]
    return [
        _single("sidekiq_workers", "gauge", "Threads of all processes.", fleet.concurrency),
        _single("sidekiq_processes", "gauge", "Processes.", len(fleet.processes)),
        Family("sidekiq_host_processes", "gauge", "Processes of a host.", tuple(hosts)),
        Family("sidekiq_host_processes_memory_usage_bytes", "gauge", "Memory its processes hold.", tuple(held)),
        Family("sidekiq_leader_lifetime_seconds", "gauge", "Since the leading process started.", tuple(leading)),
    ]


def _place(place: tuple[str, str]) -> Labels:
    return {"host": place[0], "quiet": place[1]}


def _queues(fleet: Fleet) -> list[Family]:
    def each(name: str, text: str, values: Mapping[str, float]) -> Family:
        return Family(name, "gauge", text, tuple(Sample(value, {"name": queue}) for queue, value in values.items()))

    found = fleet.queues
    return [
        each("sidekiq_queue_latency_seconds", "Age of its next job.", {q.name: q.latency_seconds for q in found}),
        each(
            "sidekiq_queue_latency_target_seconds",
            "Within which time its jobs shall begin.",
            {q.name: q.target_seconds for q in found if math.isfinite(q.target_seconds)},
        ),
        each("sidekiq_queue_enqueued_jobs", "Jobs in the queue.", {q.name: q.size for q in found}),
        each("sidekiq_queue_paused", "1 when nobody may take from it.", {q.name: q.paused for q in found}),
        each("sidekiq_queue_workers", "Threads that serve it.", {q.name: q.concurrency for q in found}),
        each("sidekiq_queue_processes", "Processes that serve it.", {q.name: q.processes for q in found}),
        each("sidekiq_queue_busy_workers", "Threads that run a job of it.", {q.name: q.busy for q in found}),
        each(
            "sidekiq_queue_max_processing_time_seconds",
            "How long its longest running job has run.",
            {q.name: q.longest_run_seconds for q in found if q.busy},
        ),
    ]


def _shards(fleet: Fleet) -> list[Family]:
    def each(name: str, text: str, values: Iterable[float], kind: Kind = "gauge") -> Family:
        samples = (Sample(value, {"shard": shard.name}) for shard, value in zip(found, values, strict=True))
        return Family(f"sidekiq_shard_{name}", kind, text, tuple(samples))

    found = fleet.shards
    ran, there = (shard.total.run_seconds for shard in found), (shard.total.thread_seconds for shard in found)
    return [
        each("processes", "Processes of the shard that take jobs.", (shard.processes for shard in found)),
        each("workers", "Threads of these.", (shard.threads for shard in found)),
        each("busy_workers", "Those of them that run a job.", (shard.busy for shard in found)),
        each("execution_seconds_total", "For how long its threads ran jobs.", ran, "counter"),
        each("thread_seconds_total", "For how long there were threads.", there, "counter"),
        each("latency_ratio", "Wait of its latest job over what is promised.", (shard.pressure for shard in found)),
        each("desired_replicas", "How many processes it should have.", (shard.desired for shard in found)),
        _single("sidekiq_apdex_objective", "gauge", "Share of runs that shall be satisfied.", fleet.objective),
    ]


def _scheduler(fleet: Fleet) -> list[Family]:
    lags = tuple(Sample(lag, {"set": name}) for name, lag in fleet.scheduler_lag_seconds.items())
    return [Family("sidekiq_scheduler_lag_seconds", "gauge", "How late the job is that is due longest.", lags)]


def _parked(fleet: Fleet) -> list[Family]:
    waiting = Counter[str]()
    for jobs in fleet.parked:
        waiting[jobs.name] += jobs.count
    now = tuple(Sample(count, {"class": name}) for name, count in waiting.items())
    ever = tuple(Sample(count, {"class": name}) for name, count in fleet.parked_counts.items())
    return [
        Family("sidekiq_stranded_jobs", "gauge", "Parked jobs that no live worker can run.", now),
        Family("sidekiq_jobs_stranded_total", "counter", "Times that such jobs were parked.", ever),
    ]


def _switches(fleet: Fleet) -> list[Family]:
    labels = [{"class": one.name, "action": one.action} for one in fleet.switches]
    on = tuple(Sample(1, each) for each in labels)
    acted = tuple(Sample(one.acted, each) for one, each in zip(fleet.switches, labels, strict=True))
    return [
        Family("sidekiq_switches", "gauge", "Classes whose jobs are dropped or put off by a switch: 1.", on),
        Family("sidekiq_switched_jobs", "gauge", "Jobs that such a switch has dropped or put off.", acted),
    ]


def _memory(fleet: Fleet) -> list[Family]:
    server = fleet.server
    return [
        _known("sidekiq_redis_memory_used_bytes", "Memory that the server uses.", server.used_memory_bytes),
        _known("sidekiq_redis_memory_max_bytes", "What it may use; 0: no limit.", server.max_memory_bytes),
    ]


def _by_class(series: Iterable[Series]) -> list[Family]:
    classes: dict[str, Series] = {}
    for one in series:
        name = one.labels.get("class", "")
        classes.setdefault(name, Series({"class": name})).add(one)

    def each(name: str, text: str, values: Mapping[str, float]) -> Family:
        return Family(name, "counter", text, tuple(Sample(value, {"class": kind}) for kind, value in values.items()))

    return [
        each("sidekiq_job_processed", "Runs of the class.", {name: one.processed for name, one in classes.items()}),
        each("sidekiq_job_failed", "Runs of it that failed.", {name: one.failed for name, one in classes.items()}),
        each(
            "sidekiq_job_execution_time_seconds",
            "Seconds that all its runs took.",
            {name: one.run_seconds for name, one in classes.items()},
        ),
    ]


def series_families(series: Sequence[Series]) -> list[Family]:
    """What was counted of runs. All series of a family have the same label names: one that lacks some has "" there."""
    names = {name: _LABEL.sub("_", name) for one in series for name in one.labels}
    labelled = [({names[name]: one.labels.get(name, "") for name in sorted(names)}, one) for one in series]
    waits = [item for item in labelled if sum(item[1].queue_buckets)]
    return [
        Family(
            "sidekiq_jobs_queue_duration_seconds",
            "histogram",
            "From enqueued to started.",
            tuple(
                sample for labels, one in waits for sample in _histogram(labels, one.queue_buckets, one.queue_seconds)
            ),
        ),
        Family(
            "sidekiq_jobs_completion_seconds",
            "histogram",
            "From started to the outcome.",
            tuple(
                sample for labels, one in labelled for sample in _histogram(labels, one.run_buckets, one.run_seconds)
            ),
        ),
        Family(
            "sidekiq_jobs_cpu_seconds",
            "summary",
            "CPU time of the threads of runs.",
            tuple(
                sample
                for labels, one in labelled
                for sample in (Sample(one.cpu_seconds, labels, "_sum"), Sample(one.processed, labels, "_count"))
            ),
        ),
        Family(
            "sidekiq_jobs_failed_total",
            "counter",
            "Runs that failed.",
            tuple(Sample(one.failed, labels) for labels, one in labelled),
        ),
        Family(
            "sidekiq_jobs_retried_total",
            "counter",
            "Runs that failed and will be tried again.",
            tuple(Sample(one.retried, labels) for labels, one in labelled),
        ),
        Family(
            "sidekiq_jobs_satisfied_total",
            "counter",
            "Runs that succeeded, began and ended within their targets.",
            tuple(Sample(one.satisfied, labels) for labels, one in labelled),
        ),
    ]


def _histogram(labels: Labels, buckets: list[int], total_seconds: float) -> Iterable[Sample]:
    below = 0
    for bound, count in zip((*BOUNDS_SECONDS, float("inf")), buckets, strict=True):
        below += count
        yield Sample(below, {**labels, "le": number(bound)}, "_bucket")
    yield Sample(total_seconds, labels, "_sum")
    yield Sample(below, labels, "_count")


def running_family(running: Mapping[tuple[str, str], int] | Mapping[tuple[()], int]) -> Family:
    """Jobs that run now: by class and queue, or with no labels at all."""
    samples = tuple(
        Sample(count, dict(zip(("class", "queue"), labels, strict=False))) for labels, count in running.items()
    )
    return Family("sidekiq_running_jobs", "gauge", "Jobs that run now.", samples)


def concurrency_family(concurrency: int) -> Family:
    return _single("sidekiq_concurrency", "gauge", "How many jobs can run at a time.", concurrency)


def _single(name: str, kind: Kind, text: str, value: float) -> Family:
    return Family(name, kind, text, (Sample(value),))


def _known(name: str, text: str, value: float | None) -> Family:
    return Family(name, "gauge", text, () if value is None else (Sample(value),))
