"""The run counts of a fleet: writes the counts of a process in one transaction, and reads them.

Sidekiq's keys (`stats` and `execution_metrics`) have the same content as Sidekiq's own. The series store has the rest:
totals for monitoring systems, runs of each release, runs that met their targets, and busy time of threads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

from offsider.core.errors import RedisUnavailable
from offsider.core.series import MICROSECONDS, Load, Series, summed
from offsider.storage import execution_metrics, series as store, stats
from offsider.storage.redis import Redis
from offsider.storage.series import MINUTE, RECENT_TOTAL, TEN_MINUTES, TOTAL, Buckets, Labels, Metric

logger = logging.getLogger("offsider")

NO_COUNTS: Mapping[Any, int] = MappingProxyType({})
#: Class, caller and tenant; three empty texts are all other sources.
Source: TypeAlias = tuple[str, str, str]
_MILLISECONDS = 1_000
_COUNTS = ("processed", "failed", "retried", "satisfied")
_RUN_CELLS = (*_COUNTS, "run_seconds", "cpu_seconds", "queue_seconds", "run_buckets", "queue_buckets")
_RELEASE_SUMS = ("processed", "failed", "run_seconds")
_RELEASE_CELLS = (*_RELEASE_SUMS, "failed_seconds", "satisfied", "run_buckets", "queue_buckets")
_FAILED_CELLS = ("failed_buckets",)


def _count(names: Sequence[str]) -> int:
    return len(Series({}).cells(names, 1))


#: Runs by class, queue and all other labels; times in microseconds.
RUNS = Metric("runs", _count(_RUN_CELLS), (TOTAL,))
#: Runs, failed runs, and runs that missed a target, by `SLO_LABELS`.
SLO = Metric("slo", 3, (TEN_MINUTES,), bits=32)
#: Runs by class and release; times in milliseconds. With several deploys a day only this metric gets new label sets all
#: the time; they are kept for eight hours, so that releases can be compared.
RELEASES = Metric("releases", _count(_RELEASE_CELLS), (MINUTE,), bits=32, max_label_sets=2_000)
#: Failed runs by duration; only of classes and releases that fail.
FAILED = Metric("failed", _count(_FAILED_CELLS), (MINUTE,), bits=32, max_label_sets=2_000)
#: Totals of `RELEASES` without buckets, for monitoring systems.
RELEASE_TOTALS = Metric("release_totals", _count(_RELEASE_SUMS), (RECENT_TOTAL,), max_label_sets=2_000)
#: Busy and total microseconds of the threads of a shard.
SHARDS = Metric("shards", 2, (MINUTE, TOTAL))

#: Runs by `Source`.
SOURCES = Metric("sources", 1, (MINUTE,), bits=32, max_label_sets=1_000)
_SOURCE_LABELS = ("class", "caller", "tenant")

#: Labels of SLOs, without queues and the labels of extensions.
SLO_LABELS = ("boundary", "class", "feature_category", "shard", "urgency")
#: Window of an SLO -> its number of ten-minute steps, including the current one.
WINDOWS: Mapping[str, int] = {"1h": 6, "6h": 36, "3d": 432}


def add(
    redis: Redis,
    series: Sequence[Series],
    now: float,
    *,
    wire_version: int,
    totals: tuple[int, int] = (0, 0),
    claimed: Mapping[str, int] = NO_COUNTS,
    sources: Mapping[Source, int] = NO_COUNTS,
    release: str = "",
    load: Load | None = None,
    shard: str = "",
) -> None:
    """Add counts to the stored ones.

    Args:
        now: epoch seconds; the runs are counted in this minute.
        totals: number of runs, and of those that raised, of all classes.
        claimed: number of claims by queue.
        sources: number of runs by source.
        release: release of the process.
        load: load of the threads in this time; None if unknown.
        shard: the shard that they serve.

    Raises:
        RedisFailure: nothing was written, unless the error is ``ambiguous``.
    """
    keys, at = redis.keys, datetime.fromtimestamp(now, UTC)
    of_class = summed(series, ["class"])
    commands = stats.commands_of(keys, *totals, at.strftime("%Y-%m-%d"))
    commands += [("HINCRBY", keys.claimed, queue, count) for queue, count in claimed.items()]
    commands += execution_metrics.commands_of(keys, of_class, at, wire_version=wire_version)
    released = [({**one.labels, "release": release}, one) for one in of_class]
    added: dict[Metric, list[tuple[Labels, Sequence[int]]]] = {
        RUNS: [(one.labels, one.cells(_RUN_CELLS, MICROSECONDS)) for one in series],
        SLO: [(one.labels, _score(one)) for one in summed(series, SLO_LABELS)],
        RELEASES: [(labels, one.cells(_RELEASE_CELLS, _MILLISECONDS)) for labels, one in released],
        FAILED: [(labels, one.cells(_FAILED_CELLS, _MILLISECONDS)) for labels, one in released],
        RELEASE_TOTALS: [(labels, one.cells(_RELEASE_SUMS, _MILLISECONDS)) for labels, one in released],
        SOURCES: [(dict(zip(_SOURCE_LABELS, source, strict=True)), [runs]) for source, runs in sources.items()],
        SHARDS: [] if load is None else [({"shard": shard}, _micros(load.run_seconds, load.thread_seconds))],
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


def _score(one: Series) -> list[int]:
    return [one.processed, one.failed, one.late]


def totals(redis: Redis, class_name: str | None = None) -> list[Series]:
    """Return the totals of every class, or of one."""
    where = None if class_name is None else {"class": class_name}
    read = store.read(redis, RUNS, TOTAL, where=where)
    return [Series.of(one.labels, one.sums(), _RUN_CELLS, MICROSECONDS) for one in read]


def release_minutes(redis: Redis, since: float, until: float, class_name: str) -> list[tuple[float, Series]]:
    """Return the runs of a class from ``since`` to ``until`` (epoch seconds), by start of the minute and release.

    A run counts in the minute in which it ended. The sum of queue latencies is not stored, only their buckets.
    """
    where = {"class": class_name}
    first = since // MINUTE.seconds * MINUTE.seconds
    runs, failed = (
        {
            (first + number * MINUTE.seconds, tuple(one.labels.values())): Series.of(
                one.labels, cells, names, _MILLISECONDS
            )
            for one in store.read(redis, metric, MINUTE, since, until, where=where)
            for number, cells in enumerate(one.steps)
            if any(cells)
        }
        for metric, names in ((RELEASES, _RELEASE_CELLS), (FAILED, _FAILED_CELLS))
    )
    for of, series in runs.items():
        if of in failed:
            series.failed_buckets = failed[of].failed_buckets
    return [(at, series) for (at, _), series in runs.items()]


def source_minutes(redis: Redis, since: float, until: float, class_name: str | None) -> list[tuple[Source, list[int]]]:
    """Return the runs of each source, per minute from ``since`` to ``until`` (epoch seconds); of one class if given."""
    where = None if class_name is None else {"class": class_name}
    found: list[tuple[Source, list[int]]] = []
    for one in store.read(redis, SOURCES, MINUTE, since, until, where=where):
        name, caller, tenant = (one.labels.get(label, "") for label in _SOURCE_LABELS)
        found.append(((name, caller, tenant), list(one.cells)))
    return found


@dataclass(frozen=True)
class MinuteCounts:
    """Runs of a class and release in consecutive minutes, earliest first. Each part is sliced when it is read.

    Attributes:
        name: class.
        release: release; empty if unknown.
        buckets: the stored counts.
    """

    name: str
    release: str
    buckets: Buckets

    @cached_property
    def processed(self) -> Sequence[int]:
        """Runs per minute."""
        return self._cells(_PROCESSED)

    @cached_property
    def failed(self) -> Sequence[int]:
        """Failed runs per minute."""
        return self._cells(_FAILED)

    @cached_property
    def satisfied(self) -> Sequence[int]:
        """Runs per minute that met their targets."""
        return self._cells(_SATISFIED)

    @cached_property
    def durations(self) -> Sequence[Sequence[int]]:
        """For each bucket of `DURATION_SECONDS`, its runs per minute."""
        return [self._cells(cell) for cell in _DURATIONS]

    @cached_property
    def waits(self) -> Sequence[Sequence[int]]:
        """For each bucket of `BOUNDS_SECONDS`, the runs per minute that waited so long in their queue."""
        return [self._cells(cell) for cell in _WAITS]

    @property
    def first(self) -> int:
        """Number of the first minute with a run; that of all minutes without any."""
        return next((number for number, runs in enumerate(self.processed) if runs), len(self.processed))

    def last_durations(self, minutes: int) -> list[int]:
        """Return the runs of the last minutes, by bucket of durations."""
        _, width, cells = self.buckets
        last = cells[-minutes * width :]
        return [sum(last[cell::width]) for cell in _DURATIONS]

    def _cells(self, cell: int) -> Sequence[int]:
        return self.buckets.cells[cell :: self.buckets.width]


_PROCESSED, _FAILED, _SATISFIED = map(_RELEASE_CELLS.index, ("processed", "failed", "satisfied"))
_DURATIONS = range(_count(_RELEASE_CELLS[:-2]), _count(_RELEASE_CELLS[:-1]))
_WAITS = range(_DURATIONS.stop, _count(_RELEASE_CELLS))


def minutes_of_classes(redis: Redis, since: float, until: float) -> dict[str, list[MinuteCounts]]:
    """Return the runs from ``since`` to ``until`` (epoch seconds) by class; one entry per release."""
    found: dict[str, list[MinuteCounts]] = {}
    for one in store.read(redis, RELEASES, MINUTE, since, until):
        name = one.labels.get("class", "")
        found.setdefault(name, []).append(MinuteCounts(name, one.labels.get("release", ""), one))
    return found


def urgencies(redis: Redis) -> dict[str, str]:
    """Return the urgency of each class that ran in the last days."""
    known = store.label_sets(redis, SLO)
    return {labels["class"]: labels["urgency"] for labels in known if {"class", "urgency"} <= labels.keys()}


def release_totals(redis: Redis) -> list[Series]:
    """Return the totals of each class and release that ran within the last eight hours."""
    read = store.read(redis, RELEASE_TOTALS, RECENT_TOTAL)
    return [Series.of(one.labels, one.sums(), _RELEASE_SUMS, _MILLISECONDS) for one in read]


def scores(redis: Redis, now: float, class_name: str | None = None) -> list[tuple[Labels, dict[str, tuple[int, ...]]]]:
    """Return the labels of each class that ran within the longest window, or of one, and its `SLO` cells per window."""
    since = now - (max(WINDOWS.values()) - 1) * TEN_MINUTES.seconds
    where = None if class_name is None else {"class": class_name}
    return [
        (one.labels, {window: tuple(one.sums(steps)) for window, steps in WINDOWS.items()})
        for one in store.read(redis, SLO, TEN_MINUTES, since, now, where=where)
    ]


def load_totals(redis: Redis) -> dict[str, Load]:
    """Return the load of each shard since its totals began."""
    return {shard: _load(buckets.sums()) for shard, buckets in _by_shard(store.read(redis, SHARDS, TOTAL))}


def load_minutes(redis: Redis, since: float, until: float) -> dict[str, list[Load]]:
    """Return the load of each shard, per minute from ``since`` to ``until`` (epoch seconds)."""
    found = _by_shard(store.read(redis, SHARDS, MINUTE, since, until))
    return {shard: [_load(cells) for cells in buckets.steps] for shard, buckets in found}


def _by_shard(read: Iterable[Buckets]) -> Iterable[tuple[str, Buckets]]:
    return ((one.labels["shard"], one) for one in read if "shard" in one.labels)


def _micros(*seconds: float) -> list[int]:
    return [round(each * MICROSECONDS) for each in seconds]


def _load(cells: Sequence[int]) -> Load:
    run, threads = cells
    return Load(run / MICROSECONDS, threads / MICROSECONDS)
