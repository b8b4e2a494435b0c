"""The accident of every demo: in the middle of it a worker is killed with -9, and its jobs come back.

1. At its time the first worker gets SIGKILL, as the kernel's out-of-memory killer sends it: no last words.
2. What it was running is read from the ledger. A new worker takes its place, as a supervisor would start one.
3. Somebody gives the jobs back; each of them ends on another worker, and how long that took is told.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from offsider.cli.demo.account import Tally
from offsider.core.wording import counted

if TYPE_CHECKING:
    from offsider.cli.demo.workers import Worker

#: When there is no end in sight.
AFTER_SECONDS = 15.0
#: How long it waits for the worker to have something to lose.
PATIENCE_SECONDS = 5.0


class Accident:
    """Kills one worker once, and follows its jobs.

    Args:
        of_seconds: how long the demo runs; the accident is in the middle. None for until Ctrl-C.

    Attributes:
        orphans: the jobs that the worker was running.
    """

    def __init__(self, of_seconds: float | None) -> None:
        self._at = AFTER_SECONDS if of_seconds is None else of_seconds / 2
        self._happened_at: float | None = None
        self._back_after: float | None = None
        self.orphans: frozenset[str] = frozenset()

    def due(self, elapsed: float, workers: Sequence[Worker], tally: Tally) -> bool:
        """Whether it is time. A worker that has ended by itself is left in peace, and an idle one for a moment."""
        victim = workers[0]
        if self._happened_at is not None or elapsed < self._at or victim.exit_code is not None:
            return False
        return bool(tally.running_in(victim.pid)) or elapsed >= self._at + PATIENCE_SECONDS

    def happen(self, elapsed: float, victim: Worker, tally: Tally, read_on: Callable[[], None]) -> str:
        """Kill ``victim``; answers what to tell."""
        self._happened_at = elapsed
        victim.send(signal.SIGKILL)
        victim.wait()
        read_on()  # after its end nothing is added any more to what it wrote
        self.orphans = frozenset(tally.running_in(victim.pid))
        return f"{victim.name} was killed with -9 while it ran {self._jobs()}"

    def news(self, elapsed: float, tally: Tally) -> str | None:
        """What to tell when the last of the jobs has run elsewhere; None before and after."""
        if self._happened_at is None or self._back_after is not None or not self.orphans <= tally.ended_again:
            return None
        self._back_after = elapsed - self._happened_at
        return f"its {self._jobs()} came back and ran elsewhere, {self._back_after:.1f} s later"

    def __str__(self) -> str:
        """One sentence for the end; empty when nothing happened."""
        if self._happened_at is None:
            return ""
        back = "which did not come back in time" if self._back_after is None else f"back {self._back_after:.1f} s later"
        return f"A worker was killed with -9 after {self._happened_at:.0f} s with {self._jobs()}, {back}."

    def _jobs(self) -> str:
        return counted(len(self.orphans), "job")
