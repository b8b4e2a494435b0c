"""What is counted of the runs of one job class in one queue, as a monitoring system wants it: sums that only grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Upper bounds of the histograms in seconds, as GitLab's dashboards have them; what is longer has one bucket more.
BOUNDS_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, 600.0)


def _no_counts() -> list[int]:
    return [0] * (len(BOUNDS_SECONDS) + 1)


@dataclass(slots=True)
class Series:
    """Sums over all runs that share their labels.

    Attributes:
        labels: ``class``, ``queue``, ``urgency`` and, where they are known, ``feature_category``, ``boundary`` and
            ``shard``; and those that extensions add.
        processed: runs, whatever came of them.
        failed: those that raised.
        retried: those of `failed` that will be tried again.
        satisfied: those that kept what their class promises; none of `failed` is one.
        run_seconds: wall time of all runs.
        cpu_seconds: CPU time of their threads.
        run_buckets: how many runs took at most `BOUNDS_SECONDS`; each run is in one bucket.
        queue_seconds: from enqueued to started, of the runs whose payload tells.
        queue_buckets: the same in buckets.
    """

    labels: Mapping[str, str]
    processed: int = 0
    failed: int = 0
    retried: int = 0
    run_seconds: float = 0.0
    cpu_seconds: float = 0.0
    run_buckets: list[int] = field(default_factory=_no_counts)
    queue_seconds: float = 0.0
    queue_buckets: list[int] = field(default_factory=_no_counts)
    satisfied: int = 0

    def add(self, other: Series) -> None:
        """Add the sums of another one to these."""
        self.processed += other.processed
        self.failed += other.failed
        self.retried += other.retried
        self.satisfied += other.satisfied
        self.run_seconds += other.run_seconds
        self.cpu_seconds += other.cpu_seconds
        self.queue_seconds += other.queue_seconds
        self.run_buckets = [sum(pair) for pair in zip(self.run_buckets, other.run_buckets, strict=True)]
        self.queue_buckets = [sum(pair) for pair in zip(self.queue_buckets, other.queue_buckets, strict=True)]
