"""Server data that many pages and users need every few seconds, cached and read once for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

from offsider.config.installation import Installation
from offsider.inspector import JobMetrics, ServerInfo, ServerLook, Stats, StrandedJobs, TopJobs, stranded_jobs
from offsider.web.ttl_cache import TtlCache

T = TypeVar("T")
SERVER_SECONDS = 5.0
HOUR_SECONDS = 2.0


class Counters(TtlCache[Stats]):
    """Cached counters and sizes."""


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


class CountersGlance(Glance[Stats]):
    """The same."""


class Looks(TtlCache[ServerLook]):
    """Cached queues and processes of a server."""


class LooksGlance(Glance[ServerLook]):
    """The same."""


class LastHour(TtlCache[TopJobs]):
    """Cached totals of the last hour."""


class Stranded(TtlCache[Sequence[StrandedJobs]]):
    """Cached stranded jobs."""


class Server(TtlCache[ServerInfo]):
    """Cached output of the command INFO."""


def counters(here: Installation) -> Stats:
    """Return counters and sizes, up to a second old."""
    return here.shared.get(Counters, lambda: Counters(partial(Stats.read, here))).get()


def forget(here: Installation) -> None:
    """Expire the counters after a change, so that the next page shows current values."""
    found = here.shared.peek(Counters)
    if found is not None:
        found.forget()


def glance(here: Installation) -> Future[Stats]:
    """The same, for who does not want to wait until they are there."""
    return here.shared.get(CountersGlance, lambda: CountersGlance(partial(counters, here))).begin()


def looked(here: Installation) -> ServerLook:
    """Return queues and processes from one snapshot, up to a second old."""
    return here.shared.get(Looks, lambda: Looks(partial(ServerLook.read, here))).get()


def server_look(here: Installation) -> Future[ServerLook]:
    """The same, for who does not want to wait until they are there."""
    return here.shared.get(LooksGlance, lambda: LooksGlance(partial(looked, here))).begin()


def last_hour(here: Installation) -> TopJobs:
    """Return the totals of the last hour, up to two seconds old."""
    read = partial(JobMetrics.top, "1h", config=here)
    return here.shared.get(LastHour, lambda: LastHour(read, HOUR_SECONDS)).get()


def stranded(here: Installation) -> Sequence[StrandedJobs]:
    """Return stranded jobs, up to two seconds old."""
    return here.shared.get(Stranded, lambda: Stranded(partial(stranded_jobs, here), HOUR_SECONDS)).get()


def server(here: Installation) -> ServerInfo:
    """Return the output of INFO, up to five seconds old."""
    return here.shared.get(Server, lambda: Server(partial(ServerInfo.read, here), SERVER_SECONDS)).get()
