"""What the objects of one fetcher share."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsider.worker.fetch.idle_threads import IdleThreads
from offsider.worker.fetch.in_flight import InFlight
from offsider.worker.fetch.prefetched import Prefetched
from offsider.worker.fetch.reconcile import Reconciler
from offsider.worker.fetch.server_wait import ServerWait
from offsider.worker.fetch.unacknowledged import Unacknowledged

if TYPE_CHECKING:
    from offsider.worker.fetch.fetcher import FetcherContext


@dataclass(frozen=True, slots=True)
class FetcherState:
    """The state of one capsule's fetcher.

    Attributes:
        in_flight: claimed jobs whose disposition is not written.
        prefetched: claimed jobs that no thread has taken yet.
        unacknowledged: finished jobs whose acknowledgement has no reply yet.
        reconciler: compares the private lists with the jobs in flight.
        idle: the threads that wait for a job.
        wait: how the leading thread waits for the server.
        quiet: set when the fetcher takes no more jobs.
    """

    in_flight: InFlight
    prefetched: Prefetched
    unacknowledged: Unacknowledged
    reconciler: Reconciler
    idle: IdleThreads
    wait: ServerWait
    quiet: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, context: FetcherContext) -> FetcherState:
        in_flight = InFlight()
        return cls(
            in_flight,
            Prefetched(),
            Unacknowledged(in_flight, context.report),
            Reconciler(context, in_flight),
            IdleThreads(),
            ServerWait(context.redis, context.config.worker.liveness_seconds),
        )
