"""What is promised of each job class that runs here, and the labels that its runs are counted under.

Asked once for each class and heartbeat, so that it costs no run anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from offsider.core.characteristics import Characteristics
from offsider.core.objectives import Target
from offsider.jobs import registry

if TYPE_CHECKING:
    from offsider.wiring.config import Config

_UNKNOWN = Characteristics()


class Promises:
    """The promises of one worker."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def target(self, name: str) -> Target:
        """What is promised of a class by its urgency."""
        return self._config.slo.target(_characteristics(name).urgency)

    def labels(self, name: str, queue: str) -> Mapping[str, str]:  # noqa: ARG002  # labels are asked with both
        """``urgency``, and ``feature_category``, ``boundary`` and ``shard`` where there is something to say."""
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
