"""The SLO targets of each job class of this worker, and the metric labels of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from offsider.core.characteristics import Characteristics
from offsider.core.slo import Target
from offsider.jobs import registry

if TYPE_CHECKING:
    from offsider.config.config import Config

_UNKNOWN = Characteristics()


class SloTargets:
    """The targets of one worker; read once for each class and heartbeat."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def target(self, name: str) -> Target:
        """Return the target for the urgency of a class."""
        return self._config.slo.target(_characteristics(name).urgency)

    def labels(self, name: str, queue: str) -> Mapping[str, str]:  # noqa: ARG002  # labels are asked with both
        """Return ``urgency``, and ``feature_category``, ``boundary`` and ``shard`` if they are set."""
        said = _characteristics(name)
        labels = {
            "urgency": said.urgency,
            "feature_category": said.feature_category,
            "boundary": "" if said.resource_boundary == "none" else said.resource_boundary,
            "shard": self._config.worker.shard,
        }
        return {label: value for label, value in labels.items() if value}


def _characteristics(name: str) -> Characteristics:
    declared = registry.peek(name)
    return _UNKNOWN if declared is None else declared.characteristics
