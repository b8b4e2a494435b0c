"""Looking at what is stored, and acting on it.

The names are found at first use (PEP 562): a worker needs only the processes, and saves the memory of the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.inspector.controls import (
        ChangedInPart,
        ControlInForce,
        ControlOrigin,
        Controls,
        ControlsSeen,
        GroupSeen,
        InvalidControl,
    )
    from offsider.inspector.counted import Counted
    from offsider.inspector.events import Event, EventLog
    from offsider.inspector.failures import Attempt, Attempts, ErrorGroup, ErrorGroups, ErrorMinute, LogLine
    from offsider.inspector.finished_runs import FinishedRun, FinishedRuns
    from offsider.inspector.flow import Flow, QueueFlow, QueueMinute, ServerLoad, ServerMinute
    from offsider.inspector.job_counts import JobCounts
    from offsider.inspector.job_filter import JobFilter
    from offsider.inspector.job_metrics import (
        BOUNDS_MS,
        PERIODS,
        DeployMark,
        Deploys,
        FleetMetrics,
        JobDetail,
        JobMetrics,
        JobTotals,
        TopJobs,
    )
    from offsider.inspector.job_record import JobRecord
    from offsider.inspector.job_set import DeadSet, JobSet, RetrySet, ScheduledSet, SetEntry
    from offsider.inspector.process import CapsuleShown, Process, ProcessSet
    from offsider.inspector.quarantine import Quarantine, QuarantinedJob
    from offsider.inspector.queue import HeldList, Queue
    from offsider.inspector.scan import Chunk
    from offsider.inspector.search import Found, find_tracked, search_everywhere
    from offsider.inspector.server_info import ServerInfo
    from offsider.inspector.sources import RunSource, run_sources
    from offsider.inspector.stats import History, QueueSummary, ServerLook, Stats
    from offsider.inspector.stranded import StrandedJobs, stranded_counts, stranded_jobs
    from offsider.inspector.work import Work, WorkSet

__all__ = [
    "BOUNDS_MS",
    "PERIODS",
    "Attempt",
    "Attempts",
    "CapsuleShown",
    "ChangedInPart",
    "Chunk",
    "ControlInForce",
    "ControlOrigin",
    "Controls",
    "ControlsSeen",
    "Counted",
    "DeadSet",
    "DeployMark",
    "Deploys",
    "ErrorGroup",
    "ErrorGroups",
    "ErrorMinute",
    "Event",
    "EventLog",
    "FinishedRun",
    "FinishedRuns",
    "FleetMetrics",
    "Flow",
    "Found",
    "GroupSeen",
    "HeldList",
    "History",
    "InvalidControl",
    "JobCounts",
    "JobDetail",
    "JobFilter",
    "JobMetrics",
    "JobRecord",
    "JobSet",
    "JobTotals",
    "LogLine",
    "Process",
    "ProcessSet",
    "Quarantine",
    "QuarantinedJob",
    "Queue",
    "QueueFlow",
    "QueueMinute",
    "QueueSummary",
    "RetrySet",
    "RunSource",
    "ScheduledSet",
    "ServerInfo",
    "ServerLoad",
    "ServerLook",
    "ServerMinute",
    "SetEntry",
    "Stats",
    "StrandedJobs",
    "TopJobs",
    "Work",
    "WorkSet",
    "find_tracked",
    "run_sources",
    "search_everywhere",
    "stranded_counts",
    "stranded_jobs",
]

#: Module -> the names that it defines.
_NAMES = {
    "controls": "ChangedInPart ControlInForce ControlOrigin Controls ControlsSeen GroupSeen InvalidControl",
    "counted": "Counted",
    "events": "Event EventLog",
    "failures": "Attempt Attempts ErrorGroup ErrorGroups ErrorMinute LogLine",
    "finished_runs": "FinishedRun FinishedRuns",
    "flow": "Flow QueueFlow QueueMinute ServerLoad ServerMinute",
    "job_counts": "JobCounts",
    "job_filter": "JobFilter",
    "job_metrics": "BOUNDS_MS DeployMark Deploys FleetMetrics JobDetail JobMetrics JobTotals PERIODS TopJobs",
    "job_record": "JobRecord",
    "job_set": "DeadSet JobSet RetrySet ScheduledSet SetEntry",
    "process": "CapsuleShown Process ProcessSet",
    "quarantine": "Quarantine QuarantinedJob",
    "queue": "HeldList Queue",
    "scan": "Chunk",
    "search": "Found find_tracked search_everywhere",
    "server_info": "ServerInfo",
    "sources": "RunSource run_sources",
    "stats": "History QueueSummary ServerLook Stats",
    "stranded": "StrandedJobs stranded_counts stranded_jobs",
    "work": "Work WorkSet",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # type checkers report an unknown name

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
