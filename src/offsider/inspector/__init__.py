"""Looking at what is stored, and acting on one job at a time."""

from offsider.inspector.job_record import JobRecord
from offsider.inspector.job_set import DeadSet, JobSet, RetrySet, ScheduledSet, SetEntry
from offsider.inspector.process import Process, ProcessSet
from offsider.inspector.queue import Queue
from offsider.inspector.stats import Stats

__all__ = [
    "DeadSet",
    "JobRecord",
    "JobSet",
    "Process",
    "ProcessSet",
    "Queue",
    "RetrySet",
    "ScheduledSet",
    "SetEntry",
    "Stats",
]
