"""The kill: one worker gets SIGKILL while it runs jobs, and the demo follows these jobs."""

from __future__ import annotations

import signal
import subprocess

from offsider.cli.demo.ledger import Tally
from offsider.core.wording import counted


class Kill:
    """Kills one worker once.

    Args:
        at_seconds: earliest time, in seconds since the start of the demo.
    """

    def __init__(self, at_seconds: float) -> None:
        self._at_seconds = at_seconds
        self._killed_at: float | None = None
        self._pid = 0
        self._jobs = ""
        self._back_seconds: float | None = None

    def is_due(self, elapsed: float, victim: subprocess.Popen[bytes], tally: Tally) -> bool:
        """True once, as soon as the worker runs jobs. An idle worker would show nothing."""
        return self._killed_at is None and elapsed >= self._at_seconds and bool(tally.running_in(victim.pid))

    def kill(self, elapsed: float, victim: subprocess.Popen[bytes], tally: Tally) -> str:
        """Kill the worker and return the event text."""
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        tally.read()  # the last lines of the worker
        self._killed_at, self._pid = elapsed, victim.pid
        self._jobs = counted(len(tally.running_in(victim.pid)), "job")
        return f"worker 1 was killed with -9 while it ran {self._jobs}"

    def recovery(self, elapsed: float, tally: Tally) -> str:
        """Return the event text once, when other workers have begun all of its jobs."""
        if self._killed_at is None or self._back_seconds is not None or tally.running_in(self._pid):
            return ""
        self._back_seconds = elapsed - self._killed_at
        return f"its {self._jobs} ran again on other workers within {self._back_seconds:.1f} s"

    def __str__(self) -> str:
        if self._killed_at is None:
            return "No worker was killed: the demo ended too early."
        back = "not recovered in time" if self._back_seconds is None else f"recovered in {self._back_seconds:.1f} s"
        return f"Worker 1 was killed with -9 after {self._killed_at:.0f} s with {self._jobs}, {back}."
