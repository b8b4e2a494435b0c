"""One claimed job during its processing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsider.storage.working import Owner, PrivateListEntry

if TYPE_CHECKING:
    from offsider.core.outcome import Outcome
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Middleware
    from offsider.worker.run.coroutine_run import CoroutineRun


@dataclass(slots=True)
class Run:
    """One run of a job: how it ended, and until then what its steps need, which different threads may take.

    Attributes:
        job: the job as middleware and the job itself saw it; None for a malformed payload.
        outcome: how it ended.
        started_at: in epoch seconds.
        duration_seconds: wall time of reloader, lookup, middleware and job; of a job that did not start, from decoding.
        cpu_seconds: CPU time of the thread; None if it was not measured, as for coroutines.
        coroutine: the coroutine of an ``async def`` job, or its place in a chunk (`Member`), until the run has ended.
        admitted, entered: admissions and middleware that wait at their ``yield``.
        begun: when reloader and middleware were entered, by the performance counter.
    """

    job: JobContext | None
    outcome: Outcome
    started_at: float
    duration_seconds: float
    cpu_seconds: float | None
    coroutine: CoroutineRun | None = field(default=None, repr=False, compare=False)
    admitted: list[Middleware] = field(init=False, repr=False, compare=False)
    entered: list[Middleware] = field(init=False, repr=False, compare=False)
    begun: float = field(init=False, repr=False, compare=False)


class UnitOfWork:
    """A job as it was taken from its queue.

    Attributes:
        queue: name of its queue.
        raw: its payload, byte for byte; acknowledging and requeueing compare these bytes.
        owner: owner of the private list that contains it; None if the fetcher keeps no such list.
        claimed_at: when it was taken, in monotonic seconds.
        alone_in: identity of the only process that has the job, if the fetcher keeps no private list.
        run: the run, once it has ended; None before.
        settled: its disposition is written, or another thread settles it.
    """

    __slots__ = ("alone_in", "claimed_at", "owner", "queue", "raw", "run", "settled")

    def __init__(
        self, queue: str, raw: bytes, owner: Owner | None = None, claimed_at: float = 0.0, alone_in: str = ""
    ) -> None:
        self.queue = queue
        self.raw = raw
        self.owner = owner
        self.claimed_at = claimed_at
        self.alone_in = alone_in
        self.run: Run | None = None
        self.settled = False

    @property
    def jid(self) -> str:
        """The id of the job that ran; empty for one that has none, or did not run."""
        return "" if self.run is None or self.run.job is None else self.run.job.jid

    @property
    def entry(self) -> PrivateListEntry:
        """The job's entry in its private list.

        Raises:
            TypeError: the fetcher keeps no private lists.
        """
        if self.owner is None:
            msg = "this job is in no private list: its fetcher does not keep any"
            raise TypeError(msg)
        return PrivateListEntry(self.owner, self.queue, self.raw)
