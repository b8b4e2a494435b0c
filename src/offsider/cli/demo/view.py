"""What the screen shows at one moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

RUNNING = "running"
EMPTYING = "emptying the queues"
EVENTS = 8
RATES = 60


@dataclass(frozen=True, slots=True)
class View:
    """One look at everything.

    Attributes:
        phase: what the demo is doing.
        seconds: since the start.
        of_seconds: when the producers stop; None for at Ctrl-C.
        where: the server's address.
        pages: the web UI's; empty while it is not there.
        queues: name -> jobs that wait.
        workers: name -> what it is doing.
        processed, failed, retried, postponed: from the ledger.
        scheduled, retries, dead: sizes of the sets on the server.
        rates: runs that ended in each of the last seconds, oldest first.
        events: the latest last.
    """

    phase: str
    seconds: float
    of_seconds: float | None
    where: str
    pages: str
    queues: Mapping[str, int]
    workers: Mapping[str, str]
    processed: int
    failed: int
    retried: int
    postponed: int
    scheduled: int
    retries: int
    dead: int
    rates: Sequence[int]
    events: Sequence[str]

    @property
    def waiting(self) -> int:
        return sum(self.queues.values())


@dataclass
class Rates:
    """Counts per second, for the last minute."""

    _seconds: deque[int] = field(default_factory=lambda: deque[int](maxlen=RATES))
    _current: int = -1

    def add(self, second: int, count: int) -> None:
        """Count ``count`` more in ``second``, which never goes back."""
        while self._current < second:
            self._seconds.append(0)
            self._current += 1
        self._seconds[-1] += count

    def whole_seconds(self) -> list[int]:
        """The seconds that are over, or the first one while there is no other."""
        return list(self._seconds)[:-1] or list(self._seconds)
