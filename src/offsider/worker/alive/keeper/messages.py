"""Messages from workers and their supervisor to the keeper; each fits into one datagram.

Each report is complete: it contains everything needed to beat for the worker and to requeue its jobs. So a restarted
keeper needs only the next report of each worker.
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

#: State of a worker that has left the registries: the keeper has nothing to do for it.
LEFT = "left"


@dataclass(frozen=True)
class Report:
    """The state of one worker.

    Attributes:
        pid: its process.
        lists: its identity and its private lists.
        life_ms: how long a beat keeps it alive.
        redis: server of its lists.
        state: a state of `health_state`, or ``"left"``.
        stuck: faults that the worker has detected in itself.
        max_strikes: ``worker.max_strikes`` after the application's configuration.
        beaten: the worker has just sent a liveness beat.
    """

    pid: int
    lists: Lists
    life_ms: int
    redis: RedisSettings
    state: str = READY
    stuck: tuple[str, ...] = ()
    max_strikes: int = 3
    beaten: bool = False


@dataclass(frozen=True)
class Orders:
    """From a supervisor: the number of workers to expect, and whether no more will start."""

    expected: int = 1
    no_more: bool = False


@dataclass(frozen=True)
class Counted:
    """Counts of a worker since its last message.

    Attributes:
        pid: its process.
        series: counts to add to the totals.
        busy, concurrency: number of running jobs, and of threads.
    """

    pid: int
    series: Sequence[Series] = ()
    busy: int = 0
    concurrency: int = 0


@dataclass(frozen=True)
class Unreadable:
    """A datagram that this version cannot decode."""

    reason: str = field(default="")


def encode(message: Report | Orders | Counted) -> bytes:
    """Encode a message as a datagram."""
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
        "beaten": message.beaten,
    }
    return json.dumps({"report": told}).encode()


def decode(datagram: bytes) -> Report | Orders | Counted | Unreadable:
    """Decode a datagram. Never raises: no message may end the keeper."""
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
        told["beaten"],
    )
