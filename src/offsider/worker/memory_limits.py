"""Detects worker processes that use too much memory.

1. The supervisor checks its children every three seconds; a worker without a supervisor checks itself.
2. A process exceeds the hard limit at once, and the soft limit after the grace period.
3. A process younger than the minimum life is exempt: an application that is larger than its limit must not be
   restarted in an endless loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from offsider.config.settings import WorkerSection

LOOK_SECONDS = 3.0


class MemoryLimits(NamedTuple):
    """The memory limits of a worker process; 0 means no limit."""

    soft_mb: int = 0
    hard_mb: int = 0
    grace_seconds: float = 900.0
    min_life_seconds: float = 60.0

    @classmethod
    def of(cls, settings: WorkerSection) -> MemoryLimits:
        return cls(
            settings.memory_soft_mb,
            settings.memory_hard_mb,
            settings.memory_grace_seconds,
            settings.memory_min_life_seconds,
        )

    @property
    def any(self) -> bool:
        return bool(self.soft_mb or self.hard_mb)


class MemoryWatch:
    """Applies the limits to one process, and remembers when it exceeded the soft limit.

    Args:
        limits: the limits to apply.
        born_at: start of the process in monotonic seconds.
    """

    def __init__(self, limits: MemoryLimits, born_at: float) -> None:
        self._limits = limits
        self._born_at = born_at
        self._above_since: float | None = None

    def too_much(self, resident_kilobytes: int, now: float) -> str:
        """Return why the process must be restarted; empty if it may continue."""
        limits, resident_mb = self._limits, resident_kilobytes / 1024
        over_hard = bool(limits.hard_mb) and resident_mb > limits.hard_mb
        over_soft = bool(limits.soft_mb) and resident_mb > limits.soft_mb
        if not over_soft:
            self._above_since = None
        elif self._above_since is None:
            self._above_since = now
        if now - self._born_at < limits.min_life_seconds:
            return ""
        if over_hard:
            return f"it uses {resident_mb:.0f} MB, more than memory_hard_mb = {limits.hard_mb}"
        if self._above_since is not None and now - self._above_since >= limits.grace_seconds:
            return (
                f"it has used more than memory_soft_mb = {limits.soft_mb} for {now - self._above_since:.0f} s "
                f"({resident_mb:.0f} MB now)"
            )
        return ""
