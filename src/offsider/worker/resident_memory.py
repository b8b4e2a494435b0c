"""Reads the resident memory of a process."""

from __future__ import annotations

import os
import sys


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
