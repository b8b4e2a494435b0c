"""What several pages, and every visitor, want to know of a server every few seconds: read once for all of them."""

from __future__ import annotations

from functools import partial

from offsider.inspector import JobMetrics, ServerInfo, Stats, TopJobs
from offsider.web.fresh import Fresh
from offsider.wiring.config import Config

SERVER_SECONDS = 5.0
HOUR_SECONDS = 2.0


class Counters(Fresh[Stats]):
    """The counters and sizes."""


class LastHour(Fresh[TopJobs]):
    """What ran within the last hour."""


class Server(Fresh[ServerInfo]):
    """What the server says about itself."""


def counters(config: Config) -> Stats:
    """The counters and sizes, at most a second old."""
    return config.kept.get(Counters, lambda: Counters(partial(Stats.read, config))).get()


def last_hour(config: Config) -> TopJobs:
    """What ran within the last hour, as of two seconds ago at most."""
    read = partial(JobMetrics.top, "1h", config=config)
    return config.kept.get(LastHour, lambda: LastHour(read, HOUR_SECONDS)).get()


def server(config: Config) -> ServerInfo:
    """What the server said of itself within the last five seconds."""
    return config.kept.get(Server, lambda: Server(partial(ServerInfo.read, config), SERVER_SECONDS)).get()
