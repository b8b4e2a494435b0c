"""The requests of one capsule: how many jobs the next one claims, and when it is worth its cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.storage import working
from offsider.worker.fetch.prefetch_size import PrefetchSize

if TYPE_CHECKING:
    from offsider.storage.effects import EffectCalls
    from offsider.storage.working import Owner
    from offsider.worker.fetch.fetcher import FetcherContext
    from offsider.worker.fetch.state import FetcherState
    from offsider.worker.fetch.unacknowledged import Finished

#: With this many jobs to prefetch, the next request is written before they run out.
MANY = 20
#: From this number of finished jobs per second on, one thread runs several short jobs before another wakes up.
RAPID = 10_000
#: A shorter job is acknowledged together with others.
MERGED_BELOW_SECONDS = 0.001


@dataclass(slots=True)
class Request:
    """The contents of one round trip.

    Attributes:
        finished: jobs to acknowledge.
        order: the queues to claim from.
        at: when it was made, in monotonic seconds; after the reply, when its jobs arrived.
        leading: made with the lead, so it may claim; else it only acknowledges.
        effects: effects of the finished jobs' dispositions.
    """

    owner: Owner
    finished: Sequence[Finished]
    order: Sequence[str]
    limit: int
    at: float
    leading: bool
    effects: EffectCalls | None = None

    @property
    def done(self) -> list[tuple[str, bytes]]:
        return [(one.unit.queue, one.unit.raw) for one in self.finished]


class ClaimSize:
    """The size of the claims of one capsule. Only the thread with the turn changes it.

    Args:
        under_way: the requests without a reply.

    Attributes:
        prefetch: computes the number of jobs to claim beyond those that idle threads need.
    """

    def __init__(self, context: FetcherContext, state: FetcherState, under_way: deque[Request]) -> None:
        self._state = state
        self._idle = state.idle
        self._under_way = under_way
        self._concurrency = context.capsule.concurrency
        self._starved_seconds = 0.0
        threads = sum(one.concurrency for one in context.config.capsules.values())
        self.prefetch = PrefetchSize(self._concurrency / threads)

    def wanted(self, more: int = 0) -> int:
        """Return how many jobs to claim next: one for each waiting thread, and some to prefetch."""
        ahead = self._room() - len(self._state.prefetched.ready)
        return max(0, min(self._idle.count + more + ahead, working.BATCH))

    def _room(self) -> int:
        """Return how many jobs may be prefetched, beyond those already requested.

        The limit applies to all claimed and unacknowledged jobs, beyond one job for each thread. It includes jobs on
        their way from the server, and finished jobs whose acknowledgement is on its way to the server.
        """
        requests = self._under_way.copy()  # in one step: another thread may read a reply
        asked = sum(request.limit for request in requests)
        unanswered = sum(len(request.finished) for request in requests)
        return min(self.prefetch.ahead, self.prefetch.most - unanswered) - asked

    def note_wait(self, seconds: float, idle_before: int) -> None:
        """Add the wait for a reply; ``idle_before`` is the number of idle threads at its start."""
        # Estimate the time without a job from the average number of idle threads during the wait.
        self._starved_seconds += seconds * (idle_before + self._idle.count) / 2 / self._concurrency

    def note_finished(self, finished: Sequence[Finished]) -> None:
        """Update the rate with the jobs finished since the last request."""
        starved_seconds, self._starved_seconds = self._starved_seconds, 0.0
        self.prefetch.note(len(finished), starved_seconds=starved_seconds)
        # Many threads with sleeping jobs reach a high rate together, but each of these jobs needs its own thread.
        last = finished[-1].unit.run if finished else None
        short = last is None or last.duration_seconds < MERGED_BELOW_SECONDS
        self._state.prefetched.rapid = short and self.prefetch.per_second >= RAPID

    def set_low(self, *, line_is_full: bool) -> None:
        """Set the number of remaining prefetched jobs at which the next request is worth its cost."""
        ahead = self.prefetch.ahead
        # For a distant server several requests are pending, so each may deliver fewer jobs.
        worth_it = min(ahead // 4 if self.prefetch.far else ahead - ahead // 2, working.BATCH)
        self._state.prefetched.low = -1 if ahead < MANY or line_is_full else self._room() - worth_it
