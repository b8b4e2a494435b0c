"""How far to fetch ahead: about two milliseconds' worth of the jobs that were finished lately.

Slow jobs are hardly finished within two milliseconds, so nothing is fetched ahead of them; of no-ops up to a
hundred are. A fixed number would be too many for the one and too few for the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import exp

AHEAD_SECONDS = 0.002
#: How quickly the past is forgotten.
MEMORY_SECONDS = 0.005
MOST = 100


class Pace:
    """The rate at which jobs of one capsule are finished. Used by the leader alone.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._noted_at = clock()
        self.per_second = 0.0

    def note(self, finished: int) -> None:
        """So many jobs were finished since the last call."""
        now = self._clock()
        passed = max(now - self._noted_at, 1e-6)
        self._noted_at = now
        self.per_second += (finished / passed - self.per_second) * (1 - exp(-passed / MEMORY_SECONDS))

    @property
    def ahead(self) -> int:
        """How many jobs to fetch beyond those that threads wait for."""
        return min(MOST, int(self.per_second * AHEAD_SECONDS))
