"""Jobs that wait because no live worker of their queue can run them: which, how many, since when, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from offsider.inspector.job_record import JobRecord
from offsider.storage import parked
from offsider.storage.parked import Seen, Wanted
from offsider.wiring.config import Config
from offsider.wiring.default import default_config

#: So many jobs of the schedule are looked at: what is due within minutes, parked or not.
MOST = 10_000


@dataclass(frozen=True, slots=True)
class ParkedJobs:
    """Parked jobs of one class whose arguments were made for the same parameters.

    Attributes:
        name: of the class.
        signature: the digest of these parameters; empty when the jobs do not tell.
        queues: where they were taken from.
        versions: of the application that pushed them, as far as they tell.
        count: how many there are, or were among the jobs that were looked at.
        is_counted: all were looked at; else there may be more.
        since: when the first of them was parked, in epoch seconds.
        reason: why the last one could not run.
    """

    name: str
    signature: str
    queues: tuple[str, ...]
    versions: tuple[str, ...]
    count: int
    is_counted: bool
    since: float
    reason: str


def parked_jobs(config: Config | None = None) -> list[ParkedJobs]:
    """What is parked, the most numerous first. Costs one command when nothing is.

    Args:
        config: which server; default: this process's.

    Raises:
        RedisFailure: the server does not answer.
    """
    redis = (config if config is not None else default_config()).shared_redis()
    kinds = parked.kinds(redis)
    if not kinds:
        return []
    found: dict[Wanted, _Heap] = {}
    looked_at = 0
    for raw in islice(parked.each(redis), MOST):
        looked_at += 1
        if parked.is_parked(raw):
            _add(found, JobRecord(raw))
    told = [heap.told(wanted, kinds.get(wanted), is_counted=looked_at < MOST) for wanted, heap in found.items()]
    return sorted(told, key=lambda jobs: (-jobs.count, jobs.name, jobs.signature))


def parked_counts(config: Config | None = None) -> dict[str, int]:
    """How often jobs of each class were parked, ever; each new try counts. Raises RedisFailure."""
    return parked.counts((config if config is not None else default_config()).shared_redis())


@dataclass(slots=True)
class _Heap:
    count: int = 0
    since: float = float("inf")
    queues: set[str] = field(default_factory=set[str])
    versions: set[str] = field(default_factory=set[str])

    def told(self, wanted: Wanted, seen: Seen | None, *, is_counted: bool) -> ParkedJobs:
        return ParkedJobs(
            wanted.name,
            wanted.signature,
            tuple(sorted(self.queues)),
            tuple(sorted(self.versions)),
            self.count,
            is_counted,
            self.since,
            seen.reason if seen is not None else "",
        )


def _add(found: dict[Wanted, _Heap], record: JobRecord) -> None:
    payload = record.payload
    since = None if payload is None else parked.parked_since(payload)
    if payload is None or since is None:
        return
    heap = found.setdefault(parked.wanted_by(payload), _Heap())
    heap.count += 1
    heap.since = min(heap.since, since)
    heap.queues.add(record.queue or "default")
    version: object = payload.get("app_version")
    if isinstance(version, str):
        heap.versions.add(version)
