"""Lists stranded jobs by class: count, reason, and waiting time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.payload import JobPayload, is_stranded
from offsider.inspector.job_record import JobRecord
from offsider.storage import stranded

#: Maximum schedule entries to read, stranded or not.
MAX_ENTRIES = 10_000


@dataclass(frozen=True, slots=True)
class StrandedJobs:
    """Stranded jobs of one class.

    Attributes:
        name: job class.
        queues: queues of the jobs.
        versions: known application versions that pushed them.
        count: number of jobs among those read.
        is_counted: whether all jobs were read; otherwise there may be more.
        since: when the first job was stranded, in epoch seconds.
        reason: why the latest job could not run.
    """

    name: str
    queues: tuple[str, ...]
    versions: tuple[str, ...]
    count: int
    is_counted: bool
    since: float
    reason: str


def stranded_jobs(config: Config | Installation | None = None) -> list[StrandedJobs]:
    """Return the stranded jobs, highest count first. Costs two commands if there are none.

    Args:
        config: selects the server; default: the configuration of this process.

    Raises:
        RedisFailure: the server does not respond.
    """
    redis = Installation.of(config).redis
    if not stranded.is_any(redis):
        return []
    found: dict[str, list[JobPayload]] = {}
    scanned = 0
    for raw in islice(stranded.each(redis), MAX_ENTRIES):
        scanned += 1
        payload = JobRecord(raw).payload if is_stranded(raw) else None
        if payload is not None and stranded.stranded_since(payload) is not None:
            found.setdefault(payload["class"], []).append(payload)
    reasons = stranded.reasons(redis)
    groups = [
        StrandedJobs(
            name,
            queues=tuple(sorted({payload.get("queue", "default") for payload in payloads})),
            versions=tuple(sorted({version for payload in payloads if (version := payload.get("app_version"))})),
            count=len(payloads),
            is_counted=scanned < MAX_ENTRIES,
            since=min(stranded.stranded_since(payload) or 0.0 for payload in payloads),
            reason=reasons.get(name, ""),
        )
        for name, payloads in found.items()
    ]
    return sorted(groups, key=lambda jobs: (-jobs.count, jobs.name))


def stranded_counts(config: Config | Installation | None = None) -> dict[str, int]:
    """Return how often jobs of each class were stranded in total; each attempt counts. Raises RedisFailure."""
    return stranded.counts(Installation.of(config).redis)
