"""What is read once a second, however many people look: the counters that stand on every page."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
FRESH_SECONDS = 1.0


class Fresh(Generic[T]):
    """What ``read`` answers, at most a second old. One thread reads, and those who come meanwhile get the same.

    A failure is kept for as long, so that a server that does not answer is not asked by each visitor anew.
    """

    def __init__(self, read: Callable[[], T], seconds: float = FRESH_SECONDS) -> None:
        self._read = read
        self._seconds = seconds
        self._lock = threading.Lock()
        self._until = 0.0
        self._value: T | None = None
        self._error: Exception | None = None

    def get(self) -> T:
        """The value; raises what reading it raised."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._look()
            if self._error is not None:
                raise self._error.with_traceback(None)
            return self._value  # type: ignore[return-value]  # it was read, since there was no error

    def forget(self) -> None:
        """Have the next one who asks get what is so then."""
        self._until = 0.0

    def _look(self) -> None:
        self._value = self._error = None
        try:
            self._value = self._read()
        except Exception as error:  # noqa: BLE001  # kept and raised to all who ask
            self._error = error
        self._until = time.monotonic() + self._seconds
