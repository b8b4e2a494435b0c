"""The metrics of `offsider.prometheus` for a program with its own Prometheus endpoint."""

from __future__ import annotations

from collections.abc import Iterable

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure
from offsider.integrations import missing

try:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector
except ImportError as error:
    raise missing("offsider.integrations.prometheus", "prometheus") from error

from offsider.fleet.metrics import read_families
from offsider.prometheus.text import metric_of


class OffsiderCollector(Collector):
    """Reads Redis at each scrape: ``REGISTRY.register(OffsiderCollector())``, in one process of the program.

    If the server does not respond, the scrape contains only the program's own metrics, and the error is passed to the
    error handlers.

    Args:
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._config = config

    def describe(self) -> Iterable[Metric]:
        """Return no metrics, so that `register` needs no server."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return all current metrics."""
        server = Installation.of(self._config)
        try:
            return [metric_of(family) for family in read_families(server)]
        except RedisFailure as error:
            server.config.handle_error(error, {"context": "answering a scrape of the metrics"})
            return ()
