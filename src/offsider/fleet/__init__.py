"""What an operator needs beyond running jobs: SLOs and autoscaling, shards, checks of rules, manifests, metrics.

Nothing that runs or stores jobs imports it.
"""

from offsider.config.config import Config
from offsider.fleet.rules import RulesInUse, check_routing, rules_in_use
from offsider.fleet.service_levels import ClassLevel, Score, ServiceLevels
from offsider.fleet.shard_load import Course, ShardLoad, ShardLoads
from offsider.fleet.shards import ServerLook, Shard, Shards, shards_of

__all__ = [
    "ClassLevel",
    "Course",
    "RulesInUse",
    "Score",
    "ServerLook",
    "ServiceLevels",
    "Shard",
    "ShardLoad",
    "ShardLoads",
    "Shards",
    "rules_in_use",
    "shards_of",
]


def install(config: Config) -> None:
    """Add the check of routing rules to ``offsider doctor``."""
    config.add_doctor_check(check_routing)
