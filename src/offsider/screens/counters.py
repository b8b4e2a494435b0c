"""Server data that many pages and users need every few seconds, cached and read once for all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Generic, TypeVar

from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure
from offsider.inspector import (
    JobMetrics,
    ProcessSet,
    ServerInfo,
    Stats,
    TopJobs,
)
from offsider.inspector.job_metrics import PastMinutes

T = TypeVar("T")
SERVER_SECONDS = 5.0
HOUR_SECONDS = 2.0
#: Maximum wait for all hanging servers together.
TIMEOUT_SECONDS = 1.5
TTL_SECONDS = 1.0


class Glance(Generic[T]):
    """A read in the background, for pages that do not wait long for it.

    Only one read runs at a time, so that a hanging server blocks one thread, not one per user.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="offsider-web-glance")
        self._under_way: Future[T] | None = None

    def begin(self) -> Future[T]:
        """Return the running read, or start one."""
        with self._lock:
            if self._under_way is None or self._under_way.done():
                self._under_way = self._thread.submit(self._read)
            return self._under_way


class _Glances(dict[Callable[[Installation], Any], Glance[Any]]):
    """The background reads of one server."""


def read_all(servers: Mapping[str, Installation], read: Callable[[Installation], T]) -> dict[str, T | str]:
    """Read several servers at once; the result of a server that fails or hangs is the reason."""
    begun = {name: _glance(installation, read).begin() for name, installation in servers.items()}
    wait(begun.values(), TIMEOUT_SECONDS)
    return {name: _result(reading) for name, reading in begun.items()}


def _glance(installation: Installation, read: Callable[[Installation], T]) -> Glance[T]:
    glances = installation.shared.get(_Glances, _Glances)
    return glances.get(read) or glances.setdefault(read, Glance(partial(read, installation)))


def _result(reading: Future[Any]) -> Any:
    if not reading.done():
        return f"no response within {TIMEOUT_SECONDS} s"
    try:
        return reading.result()
    except RedisFailure as error:
        return str(error)


def counters(installation: Installation) -> Stats:
    """Return counters and sizes, up to a second old."""
    return cache_of(installation, Stats.read).get()


def forget(installation: Installation) -> None:
    """Expire all caches of a server after a change, so that the next page shows current values."""
    for cache in [*installation.shared.get(_Caches, _Caches).values()]:
        cache.forget()


def last_hour(installation: Installation) -> TopJobs:
    """Return the totals of the last hour, up to two seconds old."""
    return cache_of(installation, _last_hour, HOUR_SECONDS).get()


def _last_hour(installation: Installation) -> TopJobs:
    return JobMetrics.top("1h", config=installation, past=installation.shared.get(PastMinutes, PastMinutes))


def server(installation: Installation) -> ServerInfo:
    """Return the output of INFO, up to five seconds old."""
    return cache_of(installation, ServerInfo.read, SERVER_SECONDS).get()


def ruby_processes(installation: Installation) -> int:
    """Return the number of running Sidekiq processes."""
    return sum(process.is_ruby for process in ProcessSet(installation))


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


def cache_of(
    installation: Installation, read: Callable[[Installation], T], seconds: float = TTL_SECONDS
) -> TtlCache[T]:
    """Return the cache of a server for the result of a function, one for all threads."""
    caches = installation.shared.get(_Caches, _Caches)
    return caches.get(read) or caches.setdefault(read, TtlCache(partial(read, installation), seconds))
