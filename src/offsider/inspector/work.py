"""The running jobs.

A Python worker reports its running jobs once per second, and a job that has ended since is no longer in its private
list. So every listed job is running and its execution time is exact; only jobs started in the last second may be
missing. For Ruby processes the list is that of their last heartbeat, up to ten seconds old.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import CannotCancel
from offsider.core.payload import encode_text
from offsider.inspector.job_record import JobRecord
from offsider.inspector.process import ProcessSet
from offsider.storage import activity, clocks, iteration, processes, stack_samples
from offsider.storage.activity import Activity
from offsider.storage.hashes import json_object, text_field
from offsider.storage.stack_samples import StackSample

#: Larger numbers are not a valid time.
_NO_TIME = 1e12


@dataclass(frozen=True, slots=True)
class Work:
    """A running job.

    Attributes:
        process: identity of the process that runs it.
        tid: ID of the thread.
        queue: queue from which the job was claimed.
        run_at: start time in epoch seconds; 0 if unknown.
        elapsed_seconds: execution time so far.
        record: the job.
    """

    process: str
    tid: str
    queue: str
    run_at: float
    elapsed_seconds: float
    record: JobRecord
    _server: Installation = field(repr=False, compare=False)

    @property
    def jid(self) -> str:
        """The ID of the job."""
        return self.record.jid

    def cancel(self) -> None:
        """Cancel the run within two seconds: `JobCancelled` is raised in it, and the job moves to the dead set.

        Python cannot interrupt a system call or C code; such a job fails when it returns from there.

        Raises:
            CannotCancel: the run has ended, or a Ruby process runs it.
        """
        process = ProcessSet(self._server).find(self.process) if self.lasts() else None
        if process is None:
            raise CannotCancel(f"job {self.jid or 'without an id'} no longer runs in {self.process}")
        process.cancel(self.jid)

    def lasts(self) -> bool:
        """Return whether this run still lasts; False for a job without an id."""
        now = WorkSet(self._server).find_work(self.jid) if self.jid else None
        return now is not None and (now.process, now.tid) == (self.process, self.tid)


def cursors_of(works: Sequence[Work], config: Config | Installation | None = None) -> list[str]:
    """Return the cursor of each running job that iterates, as JSON, when it was last stored; empty for the others."""
    return iteration.cursors(Installation.of(config).redis, [work.jid for work in works]) if works else []


class WorkSet:
    """The running jobs. Iterating yields `Work`, longest running first.

    Args:
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._server = Installation.of(config)
        self._redis = self._server.redis

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Work]:
        listed = processes.identities(self._redis)
        hashes = processes.hashes(self._redis, listed)
        reports = {identity: activity.parse(fields.get(activity.FIELD)) for identity, fields in hashes.items()}
        reporting = {identity: report for identity, report in reports.items() if report and report.running is not None}
        works = [*self._reported(reporting), *self._shown([one for one in listed if one not in reporting])]
        yield from sorted(works, key=lambda work: (-work.elapsed_seconds, work.process, work.tid))

    def find_work(self, jid: str) -> Work | None:
        """The run of this job; None if it is not running, or started within the last second."""
        return next((work for work in self if work.jid == jid), None)

    def _reported(self, reports: Mapping[str, Activity]) -> Iterator[Work]:
        running = {identity: report.running for identity, report in reports.items() if report.running}
        if not running:
            return
        now, _ = clocks.look(self._redis)
        for (identity, tid), raw in activity.payloads(self._redis, running).items():
            job = running[identity][tid]
            run_at = reports[identity].at - job.elapsed_seconds
            elapsed_seconds = max(0.0, now - run_at)
            yield Work(identity, tid, job.queue, run_at, elapsed_seconds, JobRecord(raw, job.queue), self._server)

    def _shown(self, identities: list[str]) -> Iterator[Work]:
        """Running jobs from the heartbeats of other processes."""
        now = self._server.config.clock.now()
        for identity, tid, raw in processes.work(self._redis, identities):
            yield _work(self._server, identity, tid, raw, now)


def stacks_of(jid: str, config: Config | Installation | None = None) -> list[StackSample]:
    """Return up to three stack samples of the latest run of a job that lasted unusually long, earliest first."""
    return stack_samples.read(Installation.of(config).redis, jid)


def _work(server: Installation, identity: str, tid: str, raw: bytes, now: float) -> Work:
    fields = json_object(raw)
    queue = text_field(fields.get("queue"))
    run_at = _seconds(fields.get("run_at"))
    return Work(
        process=identity,
        tid=tid,
        queue=queue,
        run_at=run_at,
        elapsed_seconds=max(0.0, now - run_at) if run_at else 0.0,
        record=JobRecord(_payload(fields.get("payload")), queue),
        _server=server,
    )


def _payload(value: object) -> bytes:
    """Return the payload: a string since Sidekiq 5, an object before."""
    try:
        text = value if isinstance(value, str) else encode_text(value)
    except (ValueError, RecursionError):  # for example NaN
        return b""
    return text.encode("utf-8", "replace")


def _seconds(value: object) -> float:
    """Parse epoch seconds; stamps of a payload may be milliseconds instead."""
    return float(value) if isinstance(value, int | float) and 0 <= value < _NO_TIME else 0.0
