"""Detects worker processes that use too much memory.

The parent checks its workers every three seconds.
"""

from __future__ import annotations

LOOK_SECONDS = 3.0
#: A peak passes, and an application that is larger than its limit must not be restarted in an endless loop.
GRACE_SECONDS = 60.0


class MemoryWatch:
    """Applies the limit to one process, and remembers when it exceeded it.

    Args:
        max_mb: the setting ``worker.memory_max_mb``; 0 for no limit.
    """

    def __init__(self, max_mb: int) -> None:
        self._max_mb = max_mb
        self._above_since: float | None = None

    def too_much(self, resident_kilobytes: int, now: float) -> str:
        """Return why the process must be restarted; empty if it may continue. ``now`` is in monotonic seconds."""
        resident_mb = resident_kilobytes / 1024
        if not self._max_mb or resident_mb <= self._max_mb:
            self._above_since = None
            return ""
        if self._above_since is None:
            self._above_since = now
        seconds = now - self._above_since
        if seconds < GRACE_SECONDS:
            return ""
        return f"it has used more than memory_max_mb = {self._max_mb} for {seconds:.0f} s ({resident_mb:.0f} MB now)"
