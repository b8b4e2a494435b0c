"""A cache with a time to live, for values that every page shows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from offsider.config.installation import Installation

T = TypeVar("T")
TTL_SECONDS = 1.0


class TtlCache(Generic[T]):
    """The result of ``read``, up to ``seconds`` old. One thread reads while the others wait for its result.

    An error is cached too, so that a failing server gets one request in that time.
    """

    def __init__(self, read: Callable[[], T], seconds: float = TTL_SECONDS) -> None:
        self._read = read
        self._seconds = seconds
        self._lock = threading.Lock()
        self._until = 0.0
        self._value: T | None = None
        self._error: Exception | None = None

    def get(self) -> T:
        """Return the value. Raises the error of ``read``."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._look()
            if self._error is not None:
                raise self._error.with_traceback(None)
            return self._value  # type: ignore[return-value]  # without an error the value was read

    def forget(self) -> None:
        """Expire the value."""
        self._until = 0.0

    def _look(self) -> None:
        self._value = self._error = None
        try:
            self._value = self._read()
        except Exception as error:  # noqa: BLE001  # cached and raised to all callers
            self._error = error
        self._until = time.monotonic() + self._seconds


class _Caches(dict[Callable[[Installation], Any], TtlCache[Any]]):
    """The caches of one server."""


def cache_of(here: Installation, read: Callable[[Installation], T], seconds: float = TTL_SECONDS) -> TtlCache[T]:
    """Return the cache of a server for the result of a function, one for all threads."""
    caches = here.shared.get(_Caches, _Caches)
    return caches.get(read) or caches.setdefault(read, TtlCache(partial(read, here), seconds))
