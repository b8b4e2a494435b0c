"""The run counts of a fleet: writes the counts of a process in one transaction, and reads them.

Sidekiq's keys (`stats` and `execution_metrics`) have the same content as Sidekiq's own. The series store has the rest:
totals for monitoring systems, runs of each release, runs that met their targets, and busy time of threads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from offsider.core.errors import RedisUnavailable
from offsider.core.series import CELLS, MICROSECONDS, Load, ReleaseRuns, Series
from offsider.storage import execution_metrics, series as store, stats
from offsider.storage.execution_metrics import BUCKETS, JobCounts
from offsider.storage.redis import Redis
from offsider.storage.series import MINUTE, RECENT_TOTAL, TEN_MINUTES, TOTAL, Buckets, Labels, Metric

logger = logging.getLogger("offsider")

#: Runs by class, queue and all other labels, with the cells of `Series`.
RUNS = Metric("runs", CELLS, (TOTAL,))
#: Runs, failed runs, and runs that missed a target, by `SLO_LABELS`.
SLO = Metric("slo", 3, (TEN_MINUTES,), bits=32)
#: Runs by class and release: processed, failed, milliseconds of runs that did not raise and of those that did, and the
#: buckets of both together, with Sidekiq's bounds. With several deploys a day only this metric gets new label sets all
#: the time; they are kept for eight hours, so that releases can be compared.
RELEASES = Metric("releases", 4 + BUCKETS, (MINUTE,), bits=32, max_label_sets=2_000)
#: The same without buckets, for monitoring systems.
RELEASE_TOTALS = Metric("release_totals", 4, (RECENT_TOTAL,), max_label_sets=2_000)
#: Busy and total microseconds of the threads of a shard.
SHARDS = Metric("shards", 2, (MINUTE, TOTAL))

#: Labels of SLOs, without queues and the labels of extensions.
SLO_LABELS = ("boundary", "class", "feature_category", "shard", "urgency")
#: Window of an SLO -> its number of ten-minute steps, including the current one.
WINDOWS: Mapping[str, int] = {"1h": 6, "6h": 36, "3d": 432}


def add(
    redis: Redis,
    counted: Sequence[JobCounts],
    series: Sequence[Series],
    now: float,
    *,
    wire_version: int,
    totals: tuple[int, int] = (0, 0),
    release: str = "",
    load: Load | None = None,
    shard: str = "",
) -> None:
    """Add counts to the stored ones.

    Args:
        now: epoch seconds; the runs are counted in this minute.
        totals: number of runs, and of those that raised, of all classes.
        release: release of the process.
        load: load of the threads in this time; None if unknown.
        shard: the shard that they serve.

    Raises:
        RedisFailure: nothing was written, unless the error is ``ambiguous``.
    """
    keys, at = redis.keys, datetime.fromtimestamp(now, UTC)
    loads = [] if load is None else [({"shard": shard}, _micros(load.run_seconds, load.thread_seconds))]
    commands = stats.commands_of(keys, *totals, at.strftime("%Y-%m-%d"))
    commands += execution_metrics.commands_of(keys, counted, at, wire_version=wire_version)
    releases = [({"class": one.name, "release": release}, _release_cells(one)) for one in counted]
    added = {
        RUNS: [(one.labels, one.cells()) for one in series],
        SLO: _scored(series),
        RELEASES: releases,
        RELEASE_TOTALS: [(labels, cells[: RELEASE_TOTALS.cells]) for labels, cells in releases],
        SHARDS: loads,
    }
    of_metrics = {metric: store.commands_of(keys, metric, cells, now) for metric, cells in added.items()}
    grown = [metric for metric, found in of_metrics.items() if found]
    for metric in grown:
        commands += of_metrics[metric]
    if not commands:
        return
    try:
        store.trim(redis, grown, now)  # first: it finds a dead connection before the counts are sent
    except RedisUnavailable as error:
        raise RedisUnavailable(str(error), ambiguous=False) from error
    replies = redis.pipeline([("MULTI",), *commands, ("EXEC",)])[-1]
    # Redis does not roll back. Written counts must not be counted again, so a refusal is only logged.
    for command, reply in zip(commands, replies, strict=True):
        if isinstance(reply, Exception):
            logger.error("a count was not written to %s: %s", command[1], reply)


def _release_cells(counts: JobCounts) -> list[int]:
    buckets = [sum(pair) for pair in zip(counts.histogram, counts.failed_histogram, strict=True)]
    return [counts.processed, counts.failed, counts.milliseconds, counts.failed_milliseconds, *buckets]


def totals(redis: Redis, class_name: str | None = None) -> list[Series]:
    """Return the totals of every class, or of one."""
    where = None if class_name is None else {"class": class_name}
    return [Series.of(one.labels, one.sums()) for one in store.read(redis, RUNS, TOTAL, where=where)]


def release_minutes(redis: Redis, since: float, until: float, class_name: str) -> list[tuple[float, ReleaseRuns]]:
    """Return the runs of a class from ``since`` to ``until`` (epoch seconds), by start of the minute and release."""
    first = since // MINUTE.seconds * MINUTE.seconds
    return [
        (first + number * MINUTE.seconds, _release_runs(one.labels, cells))
        for one in store.read(redis, RELEASES, MINUTE, since, until, where={"class": class_name})
        for number, cells in enumerate(one.steps)
        if any(cells)
    ]


def release_totals(redis: Redis) -> list[ReleaseRuns]:
    """Return the totals of each class and release that ran within the last eight hours."""
    read = store.read(redis, RELEASE_TOTALS, RECENT_TOTAL)
    return [_release_runs(one.labels, one.sums()) for one in read if "class" in one.labels]


def _release_runs(labels: Labels, cells: Sequence[int]) -> ReleaseRuns:
    processed, failed, milliseconds, failed_milliseconds, *histogram = cells
    name, release = labels["class"], labels.get("release", "")
    return ReleaseRuns(name, release, processed, failed, milliseconds, failed_milliseconds, histogram)


def scores(redis: Redis, now: float) -> list[tuple[Labels, dict[str, tuple[int, ...]]]]:
    """Return the labels of each class that ran within the longest window, and its `SLO` cells per window."""
    since = now - (max(WINDOWS.values()) - 1) * TEN_MINUTES.seconds
    return [
        (one.labels, {window: tuple(one.sums(steps)) for window, steps in WINDOWS.items()})
        for one in store.read(redis, SLO, TEN_MINUTES, since, now)
        if one.labels.get("class")
    ]


def load_totals(redis: Redis) -> dict[str, Load]:
    """Return the load of each shard since its totals began."""
    return {shard: _load(buckets.sums()) for shard, buckets in _by_shard(store.read(redis, SHARDS, TOTAL))}


def load_minutes(redis: Redis, since: float, until: float) -> dict[str, list[Load]]:
    """Return the load of each shard, per minute from ``since`` to ``until`` (epoch seconds)."""
    found = _by_shard(store.read(redis, SHARDS, MINUTE, since, until))
    return {shard: [_load(cells) for cells in buckets.steps] for shard, buckets in found}


def _scored(series: Iterable[Series]) -> Iterable[tuple[Labels, Sequence[int]]]:
    """Reduce the labels of each series to those of SLOs."""
    found: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for one in series:
        labels = tuple((name, one.labels[name]) for name in SLO_LABELS if one.labels.get(name))
        missed = max(0, one.processed - one.failed - one.satisfied)
        cells = found.setdefault(labels, [0, 0, 0])
        found[labels] = [sum(pair) for pair in zip(cells, (one.processed, one.failed, missed), strict=True)]
    return [(dict(labels), cells) for labels, cells in found.items()]


def _by_shard(read: Iterable[Buckets]) -> Iterable[tuple[str, Buckets]]:
    return ((one.labels["shard"], one) for one in read if "shard" in one.labels)


def _micros(*seconds: float) -> list[int]:
    return [round(each * MICROSECONDS) for each in seconds]


def _load(cells: Sequence[int]) -> Load:
    run, threads = cells
    return Load(run / MICROSECONDS, threads / MICROSECONDS)
