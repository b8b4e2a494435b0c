"""How often each job class ran, how often it failed and how long it took, minute by minute: Sidekiq's metrics.

Runs of Ruby processes and of ours are in the same keys, so both are in the same figures. Failed runs count as runs,
and their time does not count, as in Sidekiq.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from offsider.core.errors import ConfigurationError
from offsider.inspector.deploys import DeployMark, Deploys
from offsider.storage import execution_metrics
from offsider.storage.execution_metrics import Counts
from offsider.wiring.config import Config
from offsider.wiring.default import default_config

#: Period -> minutes.
PERIODS: Mapping[str, int] = {"1h": 60, "2h": 120, "4h": 240, "8h": 480, "24h": 1440, "48h": 2880, "72h": 4320}
#: Minutes, and with them histograms, are kept for so long.
HISTOGRAM_MINUTES = 480
HISTOGRAM_PERIODS: Mapping[str, int] = {
    name: minutes for name, minutes in PERIODS.items() if minutes <= HISTOGRAM_MINUTES
}
#: More of them are read by ten, which is ten times faster, unless Sidekiq 7 runs beside us, which has none.
FEW_MINUTES = 120
#: Upper bounds of the histogram's buckets in milliseconds; what is longer is in the last one, number 25.
BOUNDS_MS: tuple[int, ...] = (
    20, 30, 45, 65, 100, 150, 225, 335, 500, 750, 1100, 1700, 2500,
    3800, 5750, 8500, 13000, 20000, 30000, 45000, 65000, 100000, 150000, 225000, 335000,
)  # fmt: skip


@dataclass(slots=True)
class JobTotals:
    """One class over a period.

    Attributes:
        name: of the class.
        processed: runs.
        failed: those that raised.
        ms: milliseconds that the others took in all.
        series: start of each stretch of time (epoch seconds) -> seconds that its runs took.
    """

    name: str
    processed: int = 0
    failed: int = 0
    ms: float = 0.0
    series: dict[float, float] = field(default_factory=dict[float, float])

    @property
    def success(self) -> int:
        """Runs that did not raise."""
        return max(0, self.processed - self.failed)

    @property
    def total_seconds(self) -> float:
        return self.ms / 1000

    @property
    def average_ms(self) -> float:
        """Of the runs that did not raise; 0 when there is none."""
        return self.ms / self.success if self.success else 0.0

    def add(self, at: float, counts: Counts) -> None:
        """Add what is stored of one stretch of time."""
        self.processed += counts.processed
        self.failed += counts.failed
        self.ms += counts.milliseconds
        self.series[at] = counts.milliseconds / 1000


@dataclass(frozen=True)
class TopJobs:
    """All classes over a period, those with the most execution time first.

    Attributes:
        starts_at, ends_at: the period in epoch seconds.
        step_seconds: between two points of a series: 60, or 600 for more than two hours.
        jobs: one for each class.
        marks: the deploys within the period.
        processed, failed: start of each stretch of time -> runs of all classes; a stretch without runs is there too.
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
        totals: its sums.
        histogram: how many runs fell into each of the 26 buckets of `BOUNDS_MS`.
        buckets: start of each minute that had runs -> its 26 buckets.
        marks: the deploys within the period.
    """

    starts_at: float
    ends_at: float
    totals: JobTotals
    histogram: Sequence[int]
    buckets: Mapping[float, Sequence[int]]
    marks: Sequence[DeployMark]


class JobMetrics:
    """Reads the metrics."""

    @classmethod
    def top(cls, period: str, *, name_contains: str = "", config: Config | None = None) -> TopJobs:
        """All classes, or those with these letters in their names, whatever their case.

        Raises:
            ConfigurationError: there is no such period.
        """
        config = config if config is not None else default_config()
        minutes, now = _minutes(period, PERIODS), config.clock.now()
        by_ten = minutes > HISTOGRAM_MINUTES or (
            minutes > FEW_MINUTES
            and not execution_metrics.has_minutes_of_7(config.shared_redis(), _starts(now, minutes, 1))
        )
        starts = _starts(now, minutes, 10 if by_ten else 1)
        read = execution_metrics.ten_minutes if by_ten else execution_metrics.minutes
        wanted = name_contains.casefold()
        totals: dict[str, JobTotals] = {}
        processed: dict[float, int] = {}
        failed: dict[float, int] = {}
        for start, stored in zip(starts, read(config.shared_redis(), starts), strict=True):
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
            marks=Deploys(config).marks(since, until),
            processed=processed,
            failed=failed,
        )

    @classmethod
    def of(cls, name: str, period: str = "1h", *, config: Config | None = None) -> JobDetail:
        """One class, minute by minute.

        Raises:
            ConfigurationError: there is no such period, or it is longer than eight hours.
        """
        config = config if config is not None else default_config()
        starts = _starts(config.clock.now(), _minutes(period, HISTOGRAM_PERIODS), 1)
        totals, buckets = JobTotals(name), dict[float, Sequence[int]]()
        histogram = [0] * execution_metrics.BUCKETS
        stored = execution_metrics.minutes_of(config.shared_redis(), name, starts)
        for start, (counts, counted) in zip(starts, stored, strict=True):
            at = start.timestamp()
            if counts != Counts():
                totals.add(at, counts)
            if any(counted):
                buckets[at] = counted
                histogram = [sum(pair) for pair in zip(histogram, counted, strict=True)]
        since, until = starts[0].timestamp(), starts[-1].timestamp() + 60
        return JobDetail(since, until, totals, histogram, buckets, Deploys(config).marks(since, until))


def _minutes(period: str, periods: Mapping[str, int]) -> int:
    if period not in periods:
        raise ConfigurationError(f"there is no period {period!r}: choose one of {', '.join(periods)}")
    return periods[period]


def _starts(now: float, minutes: int, step: int) -> list[datetime]:
    """The beginnings of the stretches of ``step`` minutes up to now, earliest first."""
    last = datetime.fromtimestamp(now, UTC).replace(second=0, microsecond=0)
    last -= timedelta(minutes=last.minute % step)
    return [last - timedelta(minutes=back) for back in range(minutes - step, -1, -step)]
