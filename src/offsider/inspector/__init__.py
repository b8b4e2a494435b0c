"""Looking at what is stored, and acting on it."""

from typing import TYPE_CHECKING

from offsider.core import former_names
from offsider.inspector.attempts import Attempt, Attempts
from offsider.inspector.callers import Callers
from offsider.inspector.chunk import Chunk
from offsider.inspector.counted import Counted
from offsider.inspector.deploys import DeployMark, Deploys
from offsider.inspector.error_groups import ErrorGroup, ErrorGroups
from offsider.inspector.held_list import HeldList
from offsider.inspector.history import History
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_metrics import BOUNDS_MS, PERIODS, FleetMetrics, JobDetail, JobMetrics, JobTotals, TopJobs
from offsider.inspector.job_record import JobRecord
from offsider.inspector.job_set import DeadSet, JobSet, RetrySet, ScheduledSet, SetEntry
from offsider.inspector.migration import Migration, MigrationReport, Relocation
from offsider.inspector.process import CapsuleShown, Process, ProcessSet
from offsider.inspector.quarantine import Quarantine, QuarantinedJob
from offsider.inspector.queue import Queue
from offsider.inspector.routing import RulesInUse, rules_in_use
from offsider.inspector.search import Found, search_everywhere
from offsider.inspector.server_info import ServerInfo
from offsider.inspector.service_levels import ClassLevel, ServiceLevels
from offsider.inspector.shard_load import Course, ShardLoad, ShardLoads
from offsider.inspector.shards import ServerLook, Shard, Shards, shards_of
from offsider.inspector.stats import QueueSummary, Stats
from offsider.inspector.stranded import StrandedJobs, stranded_counts, stranded_jobs
from offsider.inspector.switches import InvalidSwitch, SwitchedInPart, Switches, SwitchesSeen, SwitchInForce
from offsider.inspector.work import Work, WorkSet

__all__ = [
    "BOUNDS_MS",
    "PERIODS",
    "Attempt",
    "Attempts",
    "Callers",
    "CapsuleShown",
    "Chunk",
    "ClassLevel",
    "Counted",
    "Course",
    "DeadSet",
    "DeployMark",
    "Deploys",
    "ErrorGroup",
    "ErrorGroups",
    "FleetMetrics",
    "Found",
    "HeldList",
    "History",
    "InvalidSwitch",
    "JobDetail",
    "JobFilter",
    "JobMetrics",
    "JobRecord",
    "JobSet",
    "JobTotals",
    "Migration",
    "MigrationReport",
    "Process",
    "ProcessSet",
    "Quarantine",
    "QuarantinedJob",
    "Queue",
    "QueueSummary",
    "Relocation",
    "RetrySet",
    "RulesInUse",
    "ScheduledSet",
    "ServerInfo",
    "ServerLook",
    "ServiceLevels",
    "SetEntry",
    "Shard",
    "ShardLoad",
    "ShardLoads",
    "Shards",
    "Stats",
    "StrandedJobs",
    "SwitchInForce",
    "SwitchedInPart",
    "Switches",
    "SwitchesSeen",
    "TopJobs",
    "Work",
    "WorkSet",
    "rules_in_use",
    "search_everywhere",
    "shards_of",
    "stranded_counts",
    "stranded_jobs",
]

if not TYPE_CHECKING:  # type checkers report the former name
    __getattr__ = former_names.of_module(__name__, {"parked_jobs": "offsider.inspector.stranded_jobs"})
