"""Activity of each Python process: jobs per second and running jobs, in a field of its hash in the registry.

A page that refreshes each second needs newer values than a heartbeat every ten seconds. So a busy process reports once
per second; an idle process reports only changes. The same report updates the running jobs for Ruby's pages.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from offsider.storage.redis import Redis
from offsider.storage.scripts import Command

#: The field of the process hash.
FIELD = "activity"
#: Older rates are ignored: the process is frozen or disconnected.
RATE_SECONDS = 5.0
#: Extra entries to read from a private list: finished jobs that are not acknowledged yet precede the running ones.
_SLACK = 100


class RunningJob(NamedTuple):
    """A running job.

    Attributes:
        capsule, queue: identify the private list of the job.
        digest: `digest_of` its payload.
        elapsed_seconds: run time at the time of the report.
    """

    capsule: str
    queue: str
    digest: int
    elapsed_seconds: float


@dataclass(frozen=True, slots=True)
class Activity:
    """An activity report of a process.

    Attributes:
        processed_per_second, failed_per_second: average rates over the last seconds.
        running: thread id -> running job; None for a process without private lists.
        at: time of the report in epoch seconds, by the server's clock.
    """

    processed_per_second: float = 0.0
    failed_per_second: float = 0.0
    running: Mapping[str, RunningJob] | None = field(default_factory=dict[str, RunningJob])
    at: float = 0.0


def digest_of(raw: bytes) -> int:
    return zlib.crc32(raw)


def encode(activity: Activity) -> str:
    """Return the JSON of a report without its time and the closing brace, which the script adds."""
    running = activity.running
    fields = {
        "processed": round(activity.processed_per_second, 3),
        "failed": round(activity.failed_per_second, 3),
        "running": None
        if running is None
        else {tid: [job.capsule, job.queue, job.digest, round(job.elapsed_seconds, 3)] for tid, job in running.items()},
    }
    return json.dumps(fields, separators=(",", ":")).removesuffix("}")


def parse(raw: bytes | None) -> Activity | None:
    """Parse the field of a report; None if there is none, as for Ruby processes."""
    if raw is None:
        return None
    try:
        fields = cast("dict[str, Any]", json.loads(raw))
        running = cast("dict[str, list[Any]] | None", fields["running"])
        return Activity(
            float(fields["processed"]),
            float(fields["failed"]),
            None if running is None else {tid: _running_job(job) for tid, job in running.items()},
            float(fields["at"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _running_job(fields: Sequence[Any]) -> RunningJob:
    capsule, queue, digest, elapsed_seconds = fields
    return RunningJob(str(capsule), str(queue), int(digest), float(elapsed_seconds))


def payloads(redis: Redis, running: Mapping[str, Mapping[str, RunningJob]]) -> dict[tuple[str, str], bytes]:
    """Read the payloads of reported jobs that are still running: (identity, thread id) -> payload.

    Args:
        running: identity -> running jobs of its report.

    A job that has ended since the report is no longer in its private list, and is omitted.
    """
    threads: dict[str, list[tuple[str, str, int]]] = {}
    for identity, jobs in running.items():
        for tid, job in jobs.items():
            key = redis.keys.working(identity, job.capsule, job.queue)
            threads.setdefault(key, []).append((identity, tid, job.digest))
    commands: list[Command] = [("LRANGE", key, -len(of_list) - _SLACK, -1) for key, of_list in threads.items()]
    replies = redis.pipeline(commands) if commands else []
    found: dict[tuple[str, str], bytes] = {}
    for of_list, listed in zip(threads.values(), replies, strict=True):
        by_digest: dict[int, list[bytes]] = {}
        for raw in listed:
            by_digest.setdefault(digest_of(raw), []).append(raw)
        for identity, tid, digest in of_list:
            if copies := by_digest.get(digest):
                found[identity, tid] = copies.pop()
    return found
