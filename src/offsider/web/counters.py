"""Server data that many pages and users need every few seconds, cached and read once for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Generic, TypeVar

from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure
from offsider.inspector import JobMetrics, ServerInfo, ServerLook, Stats, StrandedJobs, TopJobs, stranded_jobs
from offsider.web.ttl_cache import cache_of

T = TypeVar("T")
SERVER_SECONDS = 5.0
HOUR_SECONDS = 2.0
#: Maximum wait for all hanging servers together.
TIMEOUT_SECONDS = 1.5


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
    begun = {name: _glance(here, read).begin() for name, here in servers.items()}
    wait(begun.values(), TIMEOUT_SECONDS)
    return {name: _result(reading) for name, reading in begun.items()}


def _glance(here: Installation, read: Callable[[Installation], T]) -> Glance[T]:
    glances = here.shared.get(_Glances, _Glances)
    return glances.get(read) or glances.setdefault(read, Glance(partial(read, here)))


def _result(reading: Future[Any]) -> Any:
    if not reading.done():
        return f"no response within {TIMEOUT_SECONDS} s"
    try:
        return reading.result()
    except RedisFailure as error:
        return str(error)


def counters(here: Installation) -> Stats:
    """Return counters and sizes, up to a second old."""
    return cache_of(here, Stats.read).get()


def forget(here: Installation) -> None:
    """Expire the counters after a change, so that the next page shows current values."""
    cache_of(here, Stats.read).forget()


def looked(here: Installation) -> ServerLook:
    """Return queues and processes from one snapshot, up to a second old."""
    return cache_of(here, ServerLook.read).get()


def last_hour(here: Installation) -> TopJobs:
    """Return the totals of the last hour, up to two seconds old."""
    return cache_of(here, _last_hour, HOUR_SECONDS).get()


def _last_hour(here: Installation) -> TopJobs:
    return JobMetrics.top("1h", config=here)


def stranded(here: Installation) -> Sequence[StrandedJobs]:
    """Return stranded jobs, up to two seconds old."""
    return cache_of(here, stranded_jobs, HOUR_SECONDS).get()


def server(here: Installation) -> ServerInfo:
    """Return the output of INFO, up to five seconds old."""
    return cache_of(here, ServerInfo.read, SERVER_SECONDS).get()
