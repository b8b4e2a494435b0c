"""How well a server does at this moment: disk, memory, clients, replicas, clock and distance."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from offsider.core.errors import OffsiderError
from offsider.storage.redis import Redis

_PINGS = 10


@dataclass(frozen=True)
class Vitals:
    """What the server said when it was asked. A field of INFO that it does not tell, or may not, is None.

    Attributes:
        round_trip_seconds: the quickest of a few PINGs.
        clock_ahead_seconds: of the server's clock, seen from this machine; negative when it is behind.
        now: epoch seconds by the server's clock.
        failed_saves: what could not be written to disk the last time: ``"rdb"``, ``"aof"``, ``"aof rewrite"``.
        fsync: when the append-only file is flushed: ``appendfsync``.
        clients, max_clients: connections, now and at most.
        evicted: keys thrown away for want of memory since the server started.
        replicas: how many are connected.
        good_replicas: those that keep up, told when a least number is set.
        least_replicas: writes are refused with fewer that keep up: ``min-replicas-to-write``.
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


def vitals(redis: Redis) -> Vitals:
    """Look at a server; a few round trips.

    Raises:
        RedisUnavailable: it cannot be reached.
    """
    round_trip_seconds = min(redis.ping() for _ in range(_PINGS))
    before = time.time()
    seconds, microseconds = redis.call("TIME")
    middle = (before + time.time()) / 2
    now = int(seconds) + int(microseconds) / 1_000_000
    questions = (("INFO",), ("CONFIG", "GET", "appendfsync"), ("CONFIG", "GET", "min-replicas-to-write"))
    info, fsync, least = redis.pipeline(questions, raise_errors=False)
    told = _fields(info)
    return Vitals(
        round_trip_seconds=round_trip_seconds,
        clock_ahead_seconds=now - middle,
        now=now,
        failed_saves=_failed_saves(told),
        fsync=_setting(fsync),
        clients=_number(told.get("connected_clients")),
        max_clients=_number(told.get("maxclients")),
        evicted=_number(told.get("evicted_keys")),
        replicas=_number(told.get("connected_slaves")),
        good_replicas=_number(told.get("min_slaves_good_slaves")),
        least_replicas=_number(_setting(least)),
    )


def _failed_saves(told: Mapping[str, str]) -> tuple[str, ...]:
    statuses = {
        "rdb": "rdb_last_bgsave_status",
        "aof": "aof_last_write_status",
        "aof rewrite": "aof_last_bgrewrite_status",
    }
    return tuple(name for name, status in statuses.items() if told.get(status) == "err")


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
