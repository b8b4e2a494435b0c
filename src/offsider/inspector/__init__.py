"""Looking at what is stored, and acting on one job at a time."""

from offsider.inspector.attempts import Attempt, Attempts
from offsider.inspector.deploys import DeployMark, Deploys
from offsider.inspector.error_groups import ErrorGroup, ErrorGroups
from offsider.inspector.fleet_metrics import FleetMetrics
from offsider.inspector.job_metrics import BOUNDS_MS, PERIODS, JobDetail, JobMetrics, JobTotals, TopJobs
from offsider.inspector.job_record import JobRecord
from offsider.inspector.job_set import DeadSet, JobSet, RetrySet, ScheduledSet, SetEntry
from offsider.inspector.process import Process, ProcessSet
from offsider.inspector.queue import Queue
from offsider.inspector.stats import Stats

__all__ = [
    "BOUNDS_MS",
    "PERIODS",
    "Attempt",
    "Attempts",
    "DeadSet",
    "DeployMark",
    "Deploys",
    "ErrorGroup",
    "ErrorGroups",
    "FleetMetrics",
    "JobDetail",
    "JobMetrics",
    "JobRecord",
    "JobSet",
    "JobTotals",
    "Process",
    "ProcessSet",
    "Queue",
    "RetrySet",
    "ScheduledSet",
    "SetEntry",
    "Stats",
    "TopJobs",
]
