"""What several pages, and every visitor, want to know of a server every few seconds: read once for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

from offsider.inspector import JobMetrics, ParkedJobs, ServerInfo, ServerLook, Stats, TopJobs, parked_jobs
from offsider.web.fresh import Fresh
from offsider.wiring.config import Config

T = TypeVar("T")
SERVER_SECONDS = 5.0
HOUR_SECONDS = 2.0


class Counters(Fresh[Stats]):
    """The counters and sizes."""


class Glance(Generic[T]):
    """A look that nobody waits long for. While one is under way no other is begun, so that a server that hangs keeps
    one thread and not one for each visitor.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="offsider-web-glance")
        self._under_way: Future[T] | None = None

    def begin(self) -> Future[T]:
        """The look that is under way, or a new one."""
        with self._lock:
            if self._under_way is None or self._under_way.done():
                self._under_way = self._thread.submit(self._read)
            return self._under_way


class CountersGlance(Glance[Stats]):
    """The same."""


class Looks(Fresh[ServerLook]):
    """The queues and the processes of a server."""


class LooksGlance(Glance[ServerLook]):
    """The same."""


class LastHour(Fresh[TopJobs]):
    """What ran within the last hour."""


class Parked(Fresh[Sequence[ParkedJobs]]):
    """What no live worker can run."""


class Server(Fresh[ServerInfo]):
    """What the server says about itself."""


def counters(config: Config) -> Stats:
    """The counters and sizes, at most a second old."""
    return config.kept.get(Counters, lambda: Counters(partial(Stats.read, config))).get()


def forget(config: Config) -> None:
    """Whoever has just changed something shall not see the counters of before."""
    kept = config.kept.peek(Counters)
    if kept is not None:
        kept.forget()


def glance(config: Config) -> Future[Stats]:
    """The same, for who does not want to wait until they are there."""
    return config.kept.get(CountersGlance, lambda: CountersGlance(partial(counters, config))).begin()


def looked(config: Config) -> ServerLook:
    """The queues and the processes of one moment, at most a second old."""
    return config.kept.get(Looks, lambda: Looks(partial(ServerLook.read, config))).get()


def server_look(config: Config) -> Future[ServerLook]:
    """The same, for who does not want to wait until they are there."""
    return config.kept.get(LooksGlance, lambda: LooksGlance(partial(looked, config))).begin()


def last_hour(config: Config) -> TopJobs:
    """What ran within the last hour, as of two seconds ago at most."""
    read = partial(JobMetrics.top, "1h", config=config)
    return config.kept.get(LastHour, lambda: LastHour(read, HOUR_SECONDS)).get()


def parked(config: Config) -> Sequence[ParkedJobs]:
    """What no live worker can run, as of two seconds ago at most."""
    return config.kept.get(Parked, lambda: Parked(partial(parked_jobs, config), HOUR_SECONDS)).get()


def server(config: Config) -> ServerInfo:
    """What the server said of itself within the last five seconds."""
    return config.kept.get(Server, lambda: Server(partial(ServerInfo.read, config), SERVER_SECONDS)).get()
