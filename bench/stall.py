"""Notices that a measurement makes no progress."""

from __future__ import annotations

import time


class Stall:
    """Compares values, to end a wait when they have not changed for a while."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._value: object = None
        self._since = time.monotonic()

    def lasts(self, value: object) -> bool:
        """Return whether all values of the last seconds were this one."""
        now = time.monotonic()
        if value != self._value:
            self._value, self._since = value, now
        return now - self._since > self._seconds
