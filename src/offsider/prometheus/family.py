"""A Prometheus metric as plain values, so that extensions need no additional package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["counter", "gauge", "histogram", "summary"]
Labels: TypeAlias = Mapping[str, str]


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
