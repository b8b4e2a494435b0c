"""The resident memory of a process, and its limit, which the parent checks for its workers every three seconds."""

from __future__ import annotations

import os
import sys

CHECK_SECONDS = 3.0
#: A peak passes, and an application that is larger than its limit must not be restarted in an endless loop.
GRACE_SECONDS = 60.0


class MemoryWatch:
    """Remembers when a process exceeded its limit."""

    _above_since: float | None = None

    def too_much(self, max_mb: int, resident_kilobytes: int, now: float) -> str:
        """Return why the process must be restarted; empty if it may continue.

        Args:
            max_mb: the setting ``worker.memory_max_mb``; 0 for no limit.
            resident_kilobytes: what it uses now.
            now: monotonic seconds.
        """
        resident_mb = resident_kilobytes / 1024
        if not max_mb or resident_mb <= max_mb:
            self._above_since = None
            return ""
        if self._above_since is None:
            self._above_since = now
        seconds = now - self._above_since
        if seconds < GRACE_SECONDS:
            return ""
        return f"it has used more than memory_max_mb = {max_mb} for {seconds:.0f} s ({resident_mb:.0f} MB now)"


def resident_kilobytes(pid: int | None = None) -> int:
    """Return the resident set size in KB: the current one on Linux, elsewhere the peak, 0 if unknown.

    Args:
        pid: another process, on Linux only; by default this one.
    """
    try:
        with open(f"/proc/{pid or 'self'}/statm", "rb") as statm:  # noqa: PTH123 - read at every beat
            pages = int(statm.read().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") // 1024
    except (OSError, ValueError, AttributeError):
        return _largest_so_far() if pid is None else 0


def _largest_so_far() -> int:
    try:
        import resource  # POSIX only
    except ImportError:
        return 0
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest // 1024 if sys.platform == "darwin" else largest
