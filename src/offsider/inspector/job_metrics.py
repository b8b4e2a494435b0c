"""Sidekiq's metrics: runs, failures and execution time of each job class by minute.

Runs of Ruby processes and of ours are in the same keys, so the numbers include both. As in Sidekiq, failed runs count
as runs, but their execution time is not counted. The runs of each release of our workers are stored beside them, with
the time of failed runs. Charts show deploy marks as vertical lines, which makes the effect of
a release visible.
"""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.core.series import SIDEKIQ_SECONDS, Series, regroup, summed
from offsider.storage import events, execution_metrics, releases, run_counts, stats
from offsider.storage.execution_metrics import (
    ClassCounts,
    DeployMark as DeployMark,  # noqa: PLC0414  # a public name of this module
)

if TYPE_CHECKING:
    from offsider.storage.redis import Redis

PERIODS: Mapping[str, int] = {"1h": 60, "2h": 120, "4h": 240, "8h": 480, "24h": 1440, "48h": 2880, "72h": 4320}
"""Period -> minutes."""
#: Data by minute, including histograms, is stored for this long.
HISTOGRAM_MINUTES = 480
#: Longer periods use data by ten minutes, ten times faster to read, unless Sidekiq 7 runs too, which writes none.
SINGLE_MINUTES = 120
BOUNDS_MS: tuple[int, ...] = tuple(round(seconds * 1000) for seconds in SIDEKIQ_SECONDS)
"""Upper bounds of the histogram's buckets in milliseconds; longer runs are in the last bucket, number 25."""

#: Minutes of which a worker may not have written all counts; and how long older ones are kept.
_CHANGING_MINUTES, _KEEP_SECONDS = 3, 60.0


@dataclass(slots=True)
class JobTotals:
    """Totals of one class over a period.

    Attributes:
        name: job class.
        processed: number of runs.
        failed: number of failed runs.
        ms: total execution time of successful runs in milliseconds.
        counts: start of each interval (epoch seconds) -> its counts.
    """

    name: str
    processed: int = 0
    failed: int = 0
    ms: float = 0.0
    counts: dict[float, ClassCounts] = field(default_factory=dict[float, ClassCounts])

    @property
    def success(self) -> int:
        """Number of successful runs."""
        return max(0, self.processed - self.failed)

    @property
    def total_seconds(self) -> float:
        """Total execution time of successful runs."""
        return self.ms / 1000

    @property
    def average_ms(self) -> float:
        """Average execution time of successful runs; 0 if there are none."""
        return self.ms / self.success if self.success else 0.0

    def add(self, at: float, counts: ClassCounts) -> None:
        """Add the stored counts of one interval."""
        self.processed += counts.processed
        self.failed += counts.failed
        self.ms += counts.milliseconds
        self.counts[at] = counts


@dataclass(frozen=True)
class TopJobs:
    """All classes over a period, longest total execution time first.

    Attributes:
        starts_at, ends_at: the period in epoch seconds.
        step_seconds: interval of the series: 60, or 600 for more than two hours.
        jobs: one entry per class.
        marks: the deploys within the period.
        processed, failed: start of each interval -> runs of all classes, including intervals without runs.
    """

    starts_at: float
    ends_at: float
    step_seconds: int
    jobs: Sequence[JobTotals]
    marks: Sequence[DeployMark]
    processed: Mapping[float, int]
    failed: Mapping[float, int]


@dataclass(frozen=True)
class JobDetail:
    """One class over a period.

    Attributes:
        starts_at, ends_at: the period in epoch seconds.
        step_seconds: interval of the totals: 60, or 600 for more than eight hours, of which nothing else is stored.
        totals: totals of the period.
        histogram: number of runs in each of the 26 buckets of `BOUNDS_MS`.
        buckets: start of each minute with runs -> its 26 buckets.
        marks: the deploys within the period.
        runs: runs of our workers, by the start of the minute in which they ended, and by release.
    """

    starts_at: float
    ends_at: float
    step_seconds: int
    totals: JobTotals
    histogram: Sequence[int]
    buckets: Mapping[float, Sequence[int]]
    marks: Sequence[DeployMark]
    runs: Sequence[tuple[float, Series]] = ()

    @property
    def durations(self) -> Sequence[int]:
        """Runs of our workers by duration, failed ones included; without any, the successful runs of Ruby's."""
        runs = summed((runs for _, runs in self.runs), ())
        return regroup(runs[0].run_buckets, SIDEKIQ_SECONDS) if runs else self.histogram

    @property
    def releases(self) -> list[Series]:
        """The runs of each release in the period, the release that ran last first."""
        return summed((runs for _, runs in sorted(self.runs, key=itemgetter(0), reverse=True)), ["release"])


class PastMinutes:
    """Keeps the counts of minutes that are over, each for about a minute: a worker may write them late."""

    def __init__(self) -> None:
        self._kept: dict[datetime, tuple[float, dict[str, ClassCounts]]] = {}

    def read(self, redis: Redis, starts: Sequence[datetime]) -> list[dict[str, ClassCounts]]:
        """Read the counts of each minute, oldest first, by class; the last `_CHANGING_MINUTES` of them always."""
        now = time.monotonic()
        missing = [
            at
            for at in starts
            if at >= starts[-1] - timedelta(minutes=_CHANGING_MINUTES) or self._kept.get(at, (-math.inf, {}))[0] < now
        ]
        found = zip(missing, execution_metrics.minutes(redis, missing), strict=True)
        # At different times, so that no later call has to read all of them.
        until = {at: now + _KEEP_SECONDS * (0.5 + place % 10 / 10) for place, at in enumerate(missing)}
        kept = {at: self._kept[at] for at in starts if at in self._kept}
        self._kept = kept | {at: (until[at], counts) for at, counts in found}
        return [self._kept[at][1] for at in starts]


class JobMetrics:
    """Reads Sidekiq's metrics."""

    @classmethod
    def top(
        cls,
        period: str,
        *,
        name_contains: str = "",
        config: Config | Installation | None = None,
        past: PastMinutes | None = None,
    ) -> TopJobs:
        """Return all classes, or those whose names contain a text, case-insensitive.

        Args:
            period: one of `PERIODS`.
            name_contains: the text.
            config: selects the server; default: the configuration of this process.
            past: keeps what was read of minutes that are over, for the next call; None: all are read.

        Raises:
            ConfigurationError: there is no such period.
        """
        server = Installation.of(config)
        minutes, now = _minutes(period, PERIODS), server.config.clock.now()
        by_ten = minutes > HISTOGRAM_MINUTES or (
            minutes > SINGLE_MINUTES and not execution_metrics.has_minutes_of_7(server.redis, _starts(now, minutes, 1))
        )
        starts = _starts(now, minutes, 10 if by_ten else 1)
        read = execution_metrics.ten_minutes if by_ten else execution_metrics.minutes if past is None else past.read
        wanted = name_contains.casefold()
        totals: dict[str, JobTotals] = {}
        processed: dict[float, int] = {}
        failed: dict[float, int] = {}
        for start, stored in zip(starts, read(server.redis, starts), strict=True):
            at = start.timestamp()
            found = {name: counts for name, counts in stored.items() if wanted in name.casefold()}
            processed[at] = sum(counts.processed for counts in found.values())
            failed[at] = sum(counts.failed for counts in found.values())
            for name, counts in found.items():
                totals.setdefault(name, JobTotals(name)).add(at, counts)
        step = timedelta(minutes=10 if by_ten else 1)
        since, until = starts[0].timestamp(), (starts[-1] + step).timestamp()
        return TopJobs(
            starts_at=since,
            ends_at=until,
            step_seconds=int(step.total_seconds()),
            jobs=sorted(totals.values(), key=lambda job: (-job.ms, -job.processed, job.name)),
            marks=Deploys(server).marks(since, until),
            processed=processed,
            failed=failed,
        )

    @classmethod
    def of(cls, name: str, period: str = "1h", *, config: Config | Installation | None = None) -> JobDetail:
        """Return one class.

        Raises:
            ConfigurationError: there is no such period.
        """
        server = Installation.of(config)
        histogram = [0] * execution_metrics.BUCKETS
        if _minutes(period, PERIODS) > HISTOGRAM_MINUTES:
            top = cls.top(period, name_contains=name, config=server)
            found = next((job for job in top.jobs if job.name == name), JobTotals(name))
            return JobDetail(top.starts_at, top.ends_at, top.step_seconds, found, histogram, {}, top.marks)
        starts = _starts(server.config.clock.now(), PERIODS[period], 1)
        totals, buckets = JobTotals(name), dict[float, Sequence[int]]()
        stored = execution_metrics.minutes_of(server.redis, name, starts)
        for start, (counts, counted) in zip(starts, stored, strict=True):
            at = start.timestamp()
            if counts != ClassCounts():
                totals.add(at, counts)
            if any(counted):
                buckets[at] = counted
                histogram = [sum(pair) for pair in zip(histogram, counted, strict=True)]
        since, until = starts[0].timestamp(), starts[-1].timestamp() + 60
        runs = run_counts.release_minutes(server.redis, since, until - 1, name)
        return JobDetail(since, until, 60, totals, histogram, buckets, Deploys(server).marks(since, until), runs)


class FleetMetrics:
    """Counters of all workers by job class, queue and other labels. They never decrease when workers start or exit."""

    @classmethod
    def read(cls, config: Config | Installation | None = None, *, class_name: str | None = None) -> list[Series]:
        """Return the current counters of every class or of one, up to one heartbeat (10 s) old."""
        server = Installation.of(config)
        return run_counts.totals(server.redis, class_name)


def expired_count(name: str, config: Config | Installation | None = None) -> int:
    """Return how many jobs of a class workers have deleted because they had expired."""
    return stats.expired_counts(Installation.of(config).redis).get(name, 0)


def _minutes(period: str, periods: Mapping[str, int]) -> int:
    if period not in periods:
        raise ConfigurationError(f"unknown period {period!r}: choose one of {', '.join(periods)}")
    return periods[period]


def _starts(now: float, minutes: int, step: int) -> list[datetime]:
    """Return the starts of the intervals of ``step`` minutes up to now, earliest first."""
    last = datetime.fromtimestamp(now, UTC).replace(second=0, microsecond=0)
    last -= timedelta(minutes=last.minute % step)
    return [last - timedelta(minutes=back) for back in range(minutes - step, -1, -step)]


class Deploys:
    """The deploys of one installation.

    Args:
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._server = Installation.of(config)
        self._redis = self._server.redis

    def mark(self, label: str = "", at: float | None = None, *, by: str = "") -> bool:
        """Record a deploy. Returns False if the last minute has the same label, or this minute already has a deploy.

        Args:
            label: name of the release; default: hash and subject of the last commit, from ``git``.
            at: epoch seconds; default: now.
            by: who records it, for the event log.

        Raises:
            ConfigurationError: no label is given, and ``git`` finds no commit.
        """
        moment = datetime.fromtimestamp(self._server.config.clock.now() if at is None else at, UTC)
        named = label or label_of_commit()
        if not releases.mark(self._redis, named, moment):
            return False
        events.note(self._redis, events.DEPLOY, named, by)
        return True

    def marks(self, since: float, until: float) -> Sequence[DeployMark]:
        """Return the deploys between two times in epoch seconds, sorted by time."""
        return execution_metrics.marks(
            self._redis, datetime.fromtimestamp(since, UTC), datetime.fromtimestamp(until, UTC)
        )


def label_of_commit() -> str:
    """Return short hash and subject of the last commit in the current folder, the label that Sidekiq uses."""
    command = ("git", "log", "-1", "--format=%h %s")
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603  # fixed arguments
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(
            f"no label for the deploy: `{' '.join(command)}` failed ({error}); pass a label"
        ) from error
    return found.stdout.strip()
