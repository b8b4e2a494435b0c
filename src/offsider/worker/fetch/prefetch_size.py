"""Computes the prefetch size: the number of jobs that the threads finish in two milliseconds plus one round trip.

Threads finish few slow jobs in that time, so slow jobs are not prefetched. The limit for no-ops is `MOST_NEAR`, or
`MOST_FAR` when a round trip takes `NEAR_SECONDS` or more. A fixed number would be too high for slow jobs and too low
for no-ops.

* The rate counts only the time in which threads have jobs, not the time in which they wait for the server. A rate over
  all time would depend on the prefetch that it determines, and stay low on a distant server.
* Large payloads are prefetched up to a total size: a script that moves many of them blocks the server, and each of them
  stays in the worker's memory until it is acknowledged.
* The round trip is the minimum of recent round trips with few jobs. A reply may be late because jobs hold the
  interpreter lock, or because the script handled many jobs; it is never early.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from math import exp

AHEAD_SECONDS = 0.002
#: Decay time of the moving average. One finished job adds at most 1 / MEMORY_SECONDS to the rate.
MEMORY_SECONDS = 0.005
NEAR_SECONDS = 0.0002
#: From this round trip on, several requests are pending. Below it, more requests would only be smaller and cost more.
DISTANT_SECONDS = 0.0007
#: Maximum prefetch of one process.
MOST_NEAR = 100
MOST_FAR = 500
#: Maximum payload of all prefetched jobs of one process, in bytes; a job for each idle thread is claimed in any case.
MOST_BYTES = 8_000_000
#: Upper bound of the round trip: with a larger prefetch, jobs would wait until the ticker requeues them.
FARTHEST_SECONDS = 0.01
#: Number of recent round trips for the minimum.
ROUND_TRIPS = 64
#: A script that acknowledges and claims more jobs than this takes noticeable time on the server.
FEW_JOBS = 20


class PrefetchSize:
    """Measures the job rate of one capsule and the round trip to the server.

    Not thread-safe: only the thread that makes the round trip uses it.

    Args:
        share: this capsule's share of the process's prefetch limit.
        clock: monotonic seconds.

    Attributes:
        per_second: jobs finished per second while the threads have jobs.
        round_trip_seconds: 0 until the first measurement.
    """

    def __init__(self, share: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._noted_at = clock()
        self._round_trips: deque[float] = deque(maxlen=ROUND_TRIPS)
        self._payload_bytes = 1.0
        self.per_second = 0.0
        self.round_trip_seconds = 0.0

    def note(self, finished: int, *, starved_seconds: float = 0.0) -> None:
        """Add the jobs finished since the last call; ``starved_seconds`` is the time spent waiting for the server."""
        now = self._clock()
        worked = max(now - self._noted_at - starved_seconds, 1e-6)
        self._noted_at = now
        self.per_second += (finished / worked - self.per_second) * (1 - exp(-worked / MEMORY_SECONDS))

    def note_round_trip(self, seconds: float, jobs: int) -> None:
        """Add a round trip whose script acknowledged and claimed this many jobs."""
        if jobs <= FEW_JOBS:
            self._round_trips.append(seconds)
            self.round_trip_seconds = min(self._round_trips)

    def note_payloads(self, payload_bytes: int, jobs: int) -> None:
        """Add the total size of claimed payloads. The estimate rises at once, and falls by half with each claim."""
        mean = payload_bytes / jobs
        self._payload_bytes = max(mean, (self._payload_bytes + mean) / 2)

    @property
    def far(self) -> bool:
        """Whether the server is so distant that several concurrent requests are worth their cost."""
        return self.round_trip_seconds >= DISTANT_SECONDS

    @property
    def most(self) -> int:
        """The limit for this capsule."""
        jobs = MOST_NEAR if self.round_trip_seconds < NEAR_SECONDS else MOST_FAR
        return int(min(jobs, MOST_BYTES / self._payload_bytes) * self._share)

    @property
    def ahead(self) -> int:
        """Number of jobs to fetch beyond those that idle threads need."""
        seconds = AHEAD_SECONDS + min(self.round_trip_seconds, FARTHEST_SECONDS)
        return min(self.most, int(self.per_second * seconds))
