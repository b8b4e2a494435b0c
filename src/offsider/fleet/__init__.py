"""What an operator needs beyond running jobs: SLOs and autoscaling, shards, checks of rules, manifests, metrics.

Nothing that runs or stores jobs imports it.
"""

from offsider.config.config import Config
from offsider.fleet.rules import RulesInUse, check_routing, rules_in_use
from offsider.fleet.service_levels import ClassLevel, Score, ServiceLevels
from offsider.fleet.shards import ShardLoad, ShardLoads

__all__ = [
    "ClassLevel",
    "RulesInUse",
    "Score",
    "ServiceLevels",
    "ShardLoad",
    "ShardLoads",
    "rules_in_use",
]


def install(config: Config) -> None:
    """Add the check of routing rules to ``offsider doctor``."""
    config.doctor_checks.append(check_routing)
