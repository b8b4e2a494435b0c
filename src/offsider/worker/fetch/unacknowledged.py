"""Finished jobs whose acknowledgement has no reply yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from offsider.worker.fetch.fetcher import Settled

if TYPE_CHECKING:
    from _thread import LockType

    from offsider.storage.working import Owner
    from offsider.worker.fetch.in_flight import InFlight

#: Acknowledgements in one script.
MOST_FINISHED = 500


class Finished(Settled):
    """A finished job whose acknowledgement has no reply yet.

    Attributes:
        sent: the acknowledgement was written to the connection, with or without a reply yet.
        doubtful: it was written, and the reply was lost.
        waiter: lock held by the thread that waits until the acknowledgement is sent; the sender releases it.
    """

    sent = False
    doubtful = False
    waiter: LockType | None = None

    def wake(self) -> None:
        """Wake the thread that waits for this acknowledgement, if there is one."""
        waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            with suppress(RuntimeError):  # two threads called it at once
                waiter.release()


class Unacknowledged:
    """The finished jobs of one capsule, oldest first.

    Any thread appends to ``unsent``. A thread that has the turn of the `Line` takes jobs, and then confirms or keeps
    them. Each of these is an atomic deque operation, so there is no lock.

    Args:
        in_flight: confirmed jobs are removed from it.
        report: called with confirmed jobs, by a thread without locks.

    Attributes:
        unsent: acknowledgements to write.
        answered: confirmed jobs that `report` has not reported yet.
        stuck: acknowledgements could not be written; until they are, no thread starts another job.
    """

    def __init__(self, in_flight: InFlight, report: Callable[[Sequence[Settled]], None]) -> None:
        self._in_flight = in_flight
        self._report = report
        self.unsent: deque[Finished] = deque()
        self.answered: deque[Sequence[Finished]] = deque()
        self.stuck = False

    def take(self, owner: Owner) -> list[Finished]:
        """Take the oldest, at most `MOST_FINISHED`. Jobs of an earlier, fenced identity are void."""
        next_one = self.unsent.popleft
        taken = [next_one() for _ in range(min(len(self.unsent), MOST_FINISHED))]  # without the turn, nobody takes any
        void = [one for one in taken if one.unit.owner is not owner and one.unit.owner != owner]
        if void:
            self.confirm(void, range(len(void)))
            taken = [one for one in taken if not one.lost]
        return taken

    def confirm(self, finished: Sequence[Finished], gone: Sequence[int] = ()) -> None:
        """Record the reply to acknowledgements; another process owns the jobs at the positions in ``gone``."""
        if finished:
            if not finished[-1].sent:  # those of one request are sent together
                self.mark_sent(finished)
            units = [one.unit for one in finished]
            for unit in units:
                unit.settled = True
            for place in gone:
                finished[place].lost = True
            self._in_flight.remove(units)
            self.answered.append(finished)

    @staticmethod
    def mark_sent(finished: Iterable[Finished]) -> None:
        """Record that acknowledgements are written, and wake the threads that wait for that."""
        for one in finished:
            one.sent = True
            if one.waiter is not None:
                one.wake()

    def keep(self, finished: Sequence[Finished], *, doubtful: bool) -> None:
        """Keep acknowledgements that failed; ``doubtful`` if the server may have executed them."""
        for one in finished:
            one.sent = False
            one.doubtful = one.doubtful or doubtful
        self.unsent.extendleft(reversed(finished))
        self.stuck = self.stuck or bool(finished)

    def remove(self, carried_out: Sequence[Finished]) -> None:
        """Confirm acknowledgements that the server has executed although their reply was lost."""
        for one in carried_out:
            self.unsent.remove(one)
        self.confirm(carried_out)

    def wake_oldest(self) -> None:
        with suppress(IndexError):
            self.unsent[0].wake()

    def report(self) -> None:
        """Report confirmed jobs. The caller has no lock."""
        while self.answered:
            with suppress(IndexError):
                self._report(self.answered.popleft())
