"""What all workers have counted since the counters began, as a monitoring system scrapes it."""

from __future__ import annotations

from offsider.core.series import Series
from offsider.storage import fleet_metrics
from offsider.wiring.config import Config
from offsider.wiring.default import default_config


class FleetMetrics:
    """Sums by job class, queue and further labels. They only grow, whichever worker comes or goes."""

    @classmethod
    def read(cls, config: Config | None = None, *, class_name: str | None = None) -> list[Series]:
        """The sums as they are now, of every class or of one; they lag by a heartbeat (10 s)."""
        config = config if config is not None else default_config()
        return fleet_metrics.read(config.shared_redis(), class_name)
