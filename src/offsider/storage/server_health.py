"""Current health of a server: disk, memory, clients, replicas, clock and latency."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from offsider.core.errors import OffsiderError
from offsider.storage.redis import Redis

_PINGS = 10


@dataclass(frozen=True)
class ServerHealth:
    """A snapshot of the server's health. Fields of INFO that are missing or forbidden are None.

    Attributes:
        round_trip_seconds: the fastest of a few PINGs.
        clock_ahead_seconds: how far the server's clock is ahead of this machine's; negative if it is behind.
        now: epoch seconds by the server's clock.
        failed_saves: types of saves that failed last time: ``"rdb"``, ``"aof"``, ``"aof rewrite"``.
        fsync: flush policy of the append-only file: ``appendfsync``.
        clients, max_clients: current and maximum number of connections.
        evicted: keys evicted since the server started.
        replicas: number of connected replicas.
        good_replicas: replicas with little lag; only known if ``min-replicas-to-write`` is set.
        least_replicas: minimum number of good replicas for writes: ``min-replicas-to-write``.
    """

    round_trip_seconds: float
    clock_ahead_seconds: float
    now: float
    failed_saves: tuple[str, ...] = ()
    fsync: str | None = None
    clients: int | None = None
    max_clients: int | None = None
    evicted: int | None = None
    replicas: int | None = None
    good_replicas: int | None = None
    least_replicas: int | None = None


def server_health(redis: Redis) -> ServerHealth:
    """Read the health of a server, in a few round trips.

    Raises:
        RedisUnavailable: the server cannot be reached.
    """
    round_trip_seconds = min(redis.ping() for _ in range(_PINGS))
    before = time.time()
    seconds, microseconds = redis.call("TIME")
    middle = (before + time.time()) / 2
    now = int(seconds) + int(microseconds) / 1_000_000
    questions = (("INFO",), ("CONFIG", "GET", "appendfsync"), ("CONFIG", "GET", "min-replicas-to-write"))
    info, fsync, least = redis.pipeline(questions, raise_errors=False)
    fields = _fields(info)
    return ServerHealth(
        round_trip_seconds=round_trip_seconds,
        clock_ahead_seconds=now - middle,
        now=now,
        failed_saves=_failed_saves(fields),
        fsync=_setting(fsync),
        clients=_number(fields.get("connected_clients")),
        max_clients=_number(fields.get("maxclients")),
        evicted=_number(fields.get("evicted_keys")),
        replicas=_number(fields.get("connected_slaves")),
        good_replicas=_number(fields.get("min_slaves_good_slaves")),
        least_replicas=_number(_setting(least)),
    )


def _failed_saves(fields: Mapping[str, str]) -> tuple[str, ...]:
    statuses = {
        "rdb": "rdb_last_bgsave_status",
        "aof": "aof_last_write_status",
        "aof rewrite": "aof_last_bgrewrite_status",
    }
    return tuple(name for name, status in statuses.items() if fields.get(status) == "err")


def _fields(reply: Any) -> dict[str, str]:
    if isinstance(reply, OffsiderError):
        return {}
    lines = (line.partition(":") for line in reply.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


def _setting(reply: Any) -> str | None:
    pair = cast("list[bytes]", reply) if isinstance(reply, list) else []
    return pair[1].decode() if pair else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
