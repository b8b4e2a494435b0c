"""The metrics of `offsider.inspector.exposition` for a program that has an endpoint for Prometheus already."""

from __future__ import annotations

from collections.abc import Iterable

from offsider.core.errors import RedisFailure
from offsider.inspector.families import families_of_extensions, fleet_families
from offsider.inspector.family import Family
from offsider.inspector.fleet import Fleet
from offsider.integrations.missing import missing
from offsider.wiring.config import Config
from offsider.wiring.default import default_config

try:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector
except ImportError as error:
    raise missing("prometheus", "prometheus") from error


class OffsiderCollector(Collector):
    """Looks at Redis at each scrape: ``REGISTRY.register(OffsiderCollector())``, in one process of the program.

    A server that does not answer leaves our metrics out, and those of the program stay: the error goes to the error
    handlers.

    Args:
        config: which server; default: this process's.
    """

    def __init__(self, config: Config | None = None) -> None:
        self._config = config

    def describe(self) -> Iterable[Metric]:
        """Nothing is told of the names before the first scrape, so that registering needs no server."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """All metrics as they are now."""
        config = self._config if self._config is not None else default_config()
        try:
            fleet = Fleet.read(config)
        except RedisFailure as error:
            config.handle_error(error, {"context": "a scrape of the metrics"})
            return
        for family in [*fleet_families(fleet), *families_of_extensions(config)]:
            yield _metric(family)


def _metric(family: Family) -> Metric:
    # Their library insists that counters end in _total, and some of the established names do not.
    is_odd = family.kind == "counter" and not family.name.endswith("_total")
    metric = Metric(family.name.removesuffix("_total"), family.help, "unknown" if is_odd else family.kind)
    for sample in family.samples:
        metric.add_sample(family.name + sample.suffix, dict(sample.labels), sample.value)
    return metric
