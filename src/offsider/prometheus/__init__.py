"""Metrics for Prometheus as plain values, so that extensions need no additional package; and the metrics of runs.

The metrics of runs have the names of GitLab's Sidekiq. Extensions add a `Family`; `text` formats all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from offsider.core.series import BOUNDS_SECONDS, Series, regroup

__all__ = ["Family", "Sample"]


Kind: TypeAlias = Literal["counter", "gauge", "histogram", "summary"]
Labels: TypeAlias = Mapping[str, str]
#: Invalid characters of a label name; extensions may choose any name.
_LABEL = re.compile(r"^(?=\d)|[^a-zA-Z0-9_]|^le$")
_BOUNDS = [*(f"{bound:g}" for bound in BOUNDS_SECONDS), "+Inf"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a family.

    Attributes:
        value: the measured value.
        labels: labels of the sample.
        suffix: appended to the name of the family, as in ``_bucket``.
    """

    value: float
    labels: Labels = field(default_factory=dict[str, str])
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one metric name.

    Attributes:
        name: name in Prometheus.
        kind: type of the metric.
        help: help text.
        samples: samples, possibly none.
    """

    name: str
    kind: Kind
    help: str
    samples: tuple[Sample, ...]

    @classmethod
    def of(cls, name: str, kind: Kind, text: str, value: float | None) -> Family:
        """Return a family with one sample without labels, or without samples if the value is unknown."""
        return cls(name, kind, text, () if value is None else (Sample(value),))

    @classmethod
    def by(cls, label: str, name: str, kind: Kind, text: str, values: Mapping[str, float]) -> Family:
        """Return a family with one sample per value of a label."""
        return cls(name, kind, text, tuple(Sample(value, {label: each}) for each, value in values.items()))


def series_families(series: Sequence[Series]) -> list[Family]:
    """Return the families of runs. All samples of a family have the same label names; missing labels are ""."""
    names = {name: _LABEL.sub("_", name) for one in series for name in one.labels}
    labelled = [({names[name]: one.labels.get(name, "") for name in sorted(names)}, one) for one in series]
    queue: list[Sample] = []
    run: list[Sample] = []
    cpu: list[Sample] = []
    for labels, one in labelled:
        if any(one.queue_buckets):
            queue += _histogram(labels, one.queue_buckets, one.queue_seconds)
        run += _histogram(labels, regroup(one.run_buckets, BOUNDS_SECONDS), one.run_seconds)
        cpu += (Sample(one.cpu_seconds, labels, "_sum"), Sample(one.processed, labels, "_count"))
    families = [
        Family(
            "sidekiq_jobs_queue_duration_seconds", "histogram", "Time that jobs waited in their queue.", tuple(queue)
        ),
        Family("sidekiq_jobs_completion_seconds", "histogram", "From started to the outcome.", tuple(run)),
        Family("sidekiq_jobs_cpu_seconds", "summary", "CPU time of runs.", tuple(cpu)),
    ]
    for name, text in (
        ("failed", "Runs that failed."),
        ("retried", "Runs that failed and will be retried."),
        ("satisfied", "Runs that succeeded and met both targets (queue latency and execution time)."),
    ):
        samples = tuple(Sample(getattr(one, name), labels) for labels, one in labelled)
        families.append(Family(f"sidekiq_jobs_{name}_total", "counter", text, samples))
    return families


def _histogram(labels: Labels, buckets: Sequence[int], total_seconds: float) -> Iterator[Sample]:
    below = 0
    for bound, count in zip(_BOUNDS, buckets, strict=True):
        below += count
        yield Sample(below, {**labels, "le": bound}, "_bucket")
    yield Sample(total_seconds, labels, "_sum")
    yield Sample(below, labels, "_count")


def running_family(running: Mapping[tuple[str, str, str], int] | Mapping[tuple[()], int]) -> Family:
    """Return the running jobs: by class, queue and shard, or without labels."""
    samples = tuple(
        Sample(count, dict(zip(("class", "queue", "shard"), labels, strict=False))) for labels, count in running.items()
    )
    return Family("sidekiq_running_jobs", "gauge", "Running jobs.", samples)


def concurrency_family(concurrency: int) -> Family:
    return Family.of("sidekiq_concurrency", "gauge", "Maximum number of jobs that run at the same time.", concurrency)
