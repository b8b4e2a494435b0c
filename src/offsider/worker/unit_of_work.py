"""One claimed job on its way through a processor, and the seam that fetchers stand behind."""

from __future__ import annotations

from _thread import LockType
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from offsider.core.errors import MalformedPayload
from offsider.core.payload import decode, encode
from offsider.storage.working import Entry, Owner

if TYPE_CHECKING:
    from offsider.worker.outcome import Run


class UnitOfWork:
    """A job as it was taken from its queue.

    Attributes:
        queue: name of the queue it came from.
        raw: its payload, byte for byte; acknowledging and requeueing go by these bytes.
        owner: in whose private list it lies; None when the fetcher keeps no such list.
        claimed_at: when it was taken, in monotonic seconds.
        started: a thread has begun to run it.
        started_at: when that was, in epoch seconds.
        run: what came of it, once it has ended.
        sent: its acknowledgement was written to the server, whether or not a reply was read.
        doubtful: it was, and the reply was lost.
        settled: its outcome is written, or was void.
        alone_in: the process that alone has it, when the fetcher keeps no private list.
        waiter: held by the thread that waits for the acknowledgement to be sent; who sends it releases it.
    """

    # One is made for each job: what most never set is kept once, in the class.
    started = False
    started_at = 0.0
    run: Run | None = None
    sent = False
    doubtful = False
    settled = False
    alone_in = ""
    waiter: LockType | None = None

    def __init__(self, queue: str, raw: bytes, owner: Owner | None = None, claimed_at: float = 0.0) -> None:
        self.queue = queue
        self.raw = raw
        self.owner = owner
        self.claimed_at = claimed_at

    @property
    def entry(self) -> Entry | None:
        """Where it lies in a private list."""
        return None if self.owner is None else Entry(self.owner, self.queue, self.raw)

    @property
    def put_back(self) -> bytes:
        """The payload to store when the job goes back: one interruption more, if it had started."""
        return interrupted(self.raw) if self.started else self.raw


def interrupted(raw: bytes) -> bytes:
    """A payload with its ``interrupted_count`` raised by one; unreadable bytes stay as they are.

    The new bytes also keep a late settle of the old run from hitting the new copy (rule 5).
    """
    try:
        payload = decode(raw)
        payload["interrupted_count"] = payload.get("interrupted_count", 0) + 1
        return encode(payload)
    except MalformedPayload:
        return raw


class Fetcher(Protocol):
    """Where a capsule gets its jobs from. One object serves all threads of the capsule.

    A class of your own is named by ``worker.fetcher`` (or is ``config.fetcher``); it is made with the config, the
    capsule and the ownership, which says under which identity to claim.
    Outcomes of units with an ``entry`` are written by one script that also removes the entry; for other
    units the outcome is written first and `acknowledge` is called after.
    """

    def retrieve(self) -> UnitOfWork | None:
        """The next job; waits for one. None once the fetcher is quiet."""
        ...

    def acknowledge(self, unit: UnitOfWork) -> bool:
        """The job is done with. False when somebody else owns it by now."""
        ...

    def requeue(self, unit: UnitOfWork) -> None:
        """The job goes back to the head of its queue."""
        ...

    def bulk_requeue(self, units: Sequence[UnitOfWork]) -> None:
        """All these jobs go back: the last step of a stop."""
        ...

    def quiet(self) -> None:
        """Take no further jobs, and wake whoever waits in `retrieve`."""
        ...
