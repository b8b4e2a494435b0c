"""Prometheus' text format, written by its own library."""

from __future__ import annotations

from collections.abc import Iterable

from offsider.core.errors import ConfigurationError
from offsider.prometheus import Family

try:
    from prometheus_client.core import Metric
    from prometheus_client.exposition import generate_latest
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ConfigurationError('/metrics needs prometheus-client: pip install "offsider[prometheus]"') from error

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Limit for class names from payloads, which may have any length.
MAX_LABEL_LETTERS = 500


class _Collected(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return map(metric_of, self._families)


def text_of(families: Iterable[Family]) -> str:
    """Return the families in text format."""
    return generate_latest(_Collected(families)).decode()


def metric_of(family: Family) -> Metric:
    """Convert a family to the library's type."""
    # The library appends _total to the names of counters, but three established names do not end with it.
    is_odd = family.kind == "counter" and not family.name.endswith("_total")
    metric = Metric(family.name.removesuffix("_total"), family.help, "unknown" if is_odd else family.kind)
    for sample in family.samples:
        labels = {name: _written(value) for name, value in sample.labels.items()}
        metric.add_sample(family.name + sample.suffix, labels, sample.value)
    return metric


def _written(value: str) -> str:
    # A class name from a payload may contain text that is not valid UTF-8.
    return value[:MAX_LABEL_LETTERS].encode("utf-8", "replace").decode()
