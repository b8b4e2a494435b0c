"""What a worker tells its keeper: one datagram, from which the keeper can beat for it and give its jobs back.

Each report is complete, so a keeper that was started anew needs only the next one of each worker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from offsider.core.series import Series
from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings
from offsider.worker.health_state import READY

#: The state of a worker that has left the registries: its keeper has nothing to do for it.
LEFT = "left"


@dataclass(frozen=True)
class Report:
    """One worker at one moment.

    Attributes:
        pid: of its process.
        lists: its identity and its private lists.
        life_ms: how long a beat keeps it alive.
        redis: where its lists are.
        state: one of `health_state`'s, or ``"left"``.
        stuck: what the worker says is broken in itself.
        max_strikes: ``worker.max_strikes`` as the application left it.
    """

    pid: int
    lists: Lists
    life_ms: int
    redis: RedisSettings
    state: str = READY
    stuck: tuple[str, ...] = ()
    max_strikes: int = 3


@dataclass(frozen=True)
class Orders:
    """What a supervisor tells the keeper: how many workers shall be there, and whether no more are to come."""

    expected: int = 1
    no_more: bool = False


@dataclass(frozen=True)
class Counted:
    """What a worker has counted since the last time, and how busy it is.

    Attributes:
        pid: of its process.
        series: to be added to those of before.
        busy, concurrency: jobs that run, and that could.
    """

    pid: int
    series: Sequence[Series] = ()
    busy: int = 0
    concurrency: int = 0


@dataclass(frozen=True)
class Unreadable:
    """A datagram that says nothing to this version."""

    reason: str = field(default="")


def encode(message: Report | Orders | Counted) -> bytes:
    """The datagram of a message."""
    if isinstance(message, Counted):
        return json.dumps({"counted": asdict(message)}).encode()
    if isinstance(message, Orders):
        return json.dumps({"orders": asdict(message)}).encode()
    redis = {item.name: getattr(message.redis, item.name) for item in fields(RedisSettings)}
    told = {
        "pid": message.pid,
        "identity": message.lists.identity,
        "queues": dict(message.lists.queues),
        "life_ms": message.life_ms,
        "redis": redis,
        "state": message.state,
        "stuck": message.stuck,
        "max_strikes": message.max_strikes,
    }
    return json.dumps({"report": told}).encode()


def decode(datagram: bytes) -> Report | Orders | Counted | Unreadable:
    """The message of a datagram; never raises, since a keeper must outlive whatever it is told."""
    try:
        told = json.loads(datagram)
        if "counted" in told:
            return _counted(told["counted"])
        return Orders(**told["orders"]) if "orders" in told else _report(told["report"])
    except (ValueError, TypeError, KeyError) as error:
        return Unreadable(f"{type(error).__name__}: {error}")


def _counted(told: Mapping[str, Any]) -> Counted:
    series = tuple(Series(**each) for each in told["series"])
    return Counted(told["pid"], series, told["busy"], told["concurrency"])


def _report(told: Mapping[str, Any]) -> Report:
    redis: dict[str, Any] = {**told["redis"], "sentinels": tuple(told["redis"]["sentinels"])}
    queues: Mapping[str, Sequence[str]] = {capsule: tuple(names) for capsule, names in told["queues"].items()}
    return Report(
        told["pid"],
        Lists(told["identity"], queues),
        told["life_ms"],
        RedisSettings(**redis),
        told["state"],
        tuple(told["stuck"]),
        told["max_strikes"],
    )
