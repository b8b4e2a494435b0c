"""Sidekiq's metrics: runs, failures and execution time of each job class by minute.

Runs of Ruby processes and of ours are in the same keys, so the numbers include both. As in Sidekiq, failed runs count
as runs, but their execution time is not counted. The runs of each release of our workers are stored beside them, with
the time of failed runs. Charts show deploy marks as vertical lines, which makes the effect of
a release visible.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import itemgetter

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.core.series import ReleaseRuns, Series
from offsider.storage import execution_metrics, run_counts, stats
from offsider.storage.execution_metrics import ClassCounts

PERIODS: Mapping[str, int] = {"1h": 60, "2h": 120, "4h": 240, "8h": 480, "24h": 1440, "48h": 2880, "72h": 4320}
"""Period -> minutes."""
#: Data by minute, including histograms, is stored for this long.
HISTOGRAM_MINUTES = 480
HISTOGRAM_PERIODS: Mapping[str, int] = {
    name: minutes for name, minutes in PERIODS.items() if minutes <= HISTOGRAM_MINUTES
}
#: Longer periods use data by ten minutes, ten times faster to read, unless Sidekiq 7 runs too, which writes none.
SINGLE_MINUTES = 120
BOUNDS_MS: tuple[int, ...] = (
    20, 30, 45, 65, 100, 150, 225, 335, 500, 750, 1100, 1700, 2500,
    3800, 5750, 8500, 13000, 20000, 30000, 45000, 65000, 100000, 150000, 225000, 335000,
)  # fmt: skip
"""Upper bounds of the histogram's buckets in milliseconds; longer runs are in the last bucket, number 25."""


@dataclass(slots=True)
class JobTotals:
    """Totals of one class over a period.

    Attributes:
        name: job class.
        processed: number of runs.
        failed: number of failed runs.
        ms: total execution time of successful runs in milliseconds.
        series: start of each interval (epoch seconds) -> execution time in seconds.
    """

    name: str
    processed: int = 0
    failed: int = 0
    ms: float = 0.0
    series: dict[float, float] = field(default_factory=dict[float, float])

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
        self.series[at] = counts.milliseconds / 1000


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
    """One class over a period of at most eight hours.

    Attributes:
        starts_at, ends_at: the period in epoch seconds.
        totals: totals of the period.
        histogram: number of runs in each of the 26 buckets of `BOUNDS_MS`.
        buckets: start of each minute with runs -> its 26 buckets.
        marks: the deploys within the period.
        runs: runs of our workers, by the start of the minute in which they ended, and by release.
    """

    starts_at: float
    ends_at: float
    totals: JobTotals
    histogram: Sequence[int]
    buckets: Mapping[float, Sequence[int]]
    marks: Sequence[DeployMark]
    runs: Sequence[tuple[float, ReleaseRuns]] = ()

    @property
    def durations(self) -> Sequence[int]:
        """Runs of our workers by duration, failed ones included; without any, the successful runs of Ruby's."""
        return [
            sum(counts) for counts in zip(*(runs.histogram for _, runs in self.runs), strict=True)
        ] or self.histogram

    @property
    def releases(self) -> list[ReleaseRuns]:
        """The runs of each release in the period, the release that ran last first."""
        found: dict[str, ReleaseRuns] = {}
        for _, runs in sorted(self.runs, key=itemgetter(0), reverse=True):
            found[runs.release] = found[runs.release].plus(runs) if runs.release in found else runs
        return [*found.values()]


class JobMetrics:
    """Reads Sidekiq's metrics."""

    @classmethod
    def top(cls, period: str, *, name_contains: str = "", config: Config | Installation | None = None) -> TopJobs:
        """Return all classes, or those whose names contain a text, case-insensitive.

        Raises:
            ConfigurationError: there is no such period.
        """
        server = Installation.of(config)
        minutes, now = _minutes(period, PERIODS), server.config.clock.now()
        by_ten = minutes > HISTOGRAM_MINUTES or (
            minutes > SINGLE_MINUTES and not execution_metrics.has_minutes_of_7(server.redis, _starts(now, minutes, 1))
        )
        starts = _starts(now, minutes, 10 if by_ten else 1)
        read = execution_metrics.ten_minutes if by_ten else execution_metrics.minutes
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
        """Return one class by minute.

        Raises:
            ConfigurationError: the period is unknown, or longer than eight hours.
        """
        server = Installation.of(config)
        starts = _starts(server.config.clock.now(), _minutes(period, HISTOGRAM_PERIODS), 1)
        totals, buckets = JobTotals(name), dict[float, Sequence[int]]()
        histogram = [0] * execution_metrics.BUCKETS
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
        return JobDetail(since, until, totals, histogram, buckets, Deploys(server).marks(since, until), runs)


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


@dataclass(frozen=True, slots=True)
class DeployMark:
    """A deploy.

    Attributes:
        at: the start of its minute, in epoch seconds.
        label: the text given by the deploy, such as a revision.
    """

    at: float
    label: str


class Deploys:
    """The deploys of one installation.

    Args:
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._server = Installation.of(config)
        self._redis = self._server.redis

    def mark(self, label: str = "", at: float | None = None) -> bool:
        """Record a deploy. Returns False if the last minute has the same label, or this minute already has a deploy.

        Args:
            label: name of the release; default: hash and subject of the last commit, from ``git``.
            at: epoch seconds; default: now.

        Raises:
            ConfigurationError: no label is given, and ``git`` finds no commit.
        """
        moment = datetime.fromtimestamp(self._server.config.clock.now() if at is None else at, UTC)
        return execution_metrics.mark(self._redis, label or label_of_commit(), moment)

    def marks(self, since: float, until: float) -> Sequence[DeployMark]:
        """Return the deploys between two times in epoch seconds, sorted by time."""
        found = execution_metrics.marks(
            self._redis, datetime.fromtimestamp(since, UTC), datetime.fromtimestamp(until, UTC)
        )
        return [DeployMark(at.timestamp(), label) for at, label in found]


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
