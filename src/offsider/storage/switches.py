"""Kill switches: workers drop or defer the jobs of a class instead of running them.

All switches are fields of one hash. A change also changes the version of the controls, which workers read once a
second. Times are by the server's clock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from offsider.storage import controls, hashes
from offsider.storage.commands import run_together
from offsider.storage.redis import Redis
from offsider.storage.scripts import Script

FORGET_SWITCH = Script("forget_switch")

Action: TypeAlias = Literal["drop", "defer"]


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch for the jobs of one class.

    Attributes:
        name: the class.
        action: ``"drop"`` or ``"defer"``.
        delay_seconds: delay of a deferred job until its next attempt.
        keep: move dropped jobs to the quarantine; otherwise delete them.
        since: when it was set, in epoch seconds.
        until: when it expires, in epoch seconds; None if it stays until an operator clears it.
        by: who set it; empty if unknown.
        reason: why it was set, as free text.
    """

    name: str
    action: Action
    delay_seconds: float = 0.0
    keep: bool = True
    since: float = 0.0
    until: float | None = None
    by: str = ""
    reason: str = ""


class Board(NamedTuple):
    """A snapshot of all switches.

    Attributes:
        on: the active switches, by class.
        over: class -> stored value of each expired switch.
        now: time of the snapshot in epoch seconds, by the server's clock; 0 if there are none.
    """

    on: Mapping[str, Switch]
    over: Mapping[str, bytes]
    now: float


def put(redis: Redis, switch: Switch, *, seconds: float | None = None) -> Switch:
    """Set or replace the switch of a class, and reset its count.

    Args:
        seconds: until it expires; None for no expiry.

    Returns:
        The switch with its times.
    """
    now = _now(redis.call("TIME"))
    fields: dict[str, Any] = {
        "action": switch.action,
        "delay_seconds": switch.delay_seconds,
        "keep": switch.keep,
        "since": now,
        "until": None if seconds is None else now + seconds,
        "by": switch.by,
        "reason": switch.reason,
    }
    stored = json.dumps(fields, ensure_ascii=True, separators=(",", ":"))
    keys = redis.keys
    run_together(
        redis,
        ("HSET", keys.switches, switch.name, stored),
        ("HDEL", keys.switches_acted, switch.name),
        controls.changed(keys),
    )
    return _parse(switch.name, fields)


def clear(redis: Redis, name: str) -> bool:
    """Delete the switch of a class. Returns False if there is none."""
    keys = redis.keys
    removed, *_ = run_together(
        redis, ("HDEL", keys.switches, name), ("HDEL", keys.switches_acted, name), controls.changed(keys)
    )
    return bool(removed)


def forget(redis: Redis, name: str, stored: bytes) -> bool:
    """Delete an expired switch, unless it was replaced after it was read."""
    keys = [redis.keys.switches, redis.keys.switches_acted]
    return bool(redis.run(FORGET_SWITCH, keys, [name, stored]))


def read(redis: Redis) -> Board:
    """Read all switches. Unreadable entries are ignored. Without switches the time is not read."""
    stored = redis.call("HGETALL", redis.keys.switches)
    now = _now(redis.call("TIME")) if stored else 0.0
    on: dict[str, Switch] = {}
    over: dict[str, bytes] = {}
    for field, value in hashes.pairs(stored):
        name = field.decode("utf-8", "replace")
        switch = _read(name, value)
        if switch is not None and switch.until is not None and switch.until <= now:
            over[name] = value
        elif switch is not None:
            on[name] = switch
    return Board(on, over, now)


def count(redis: Redis, acted: Mapping[str, int]) -> None:
    """Add to the number of jobs dropped or deferred, per class."""
    redis.pipeline([("HINCRBY", redis.keys.switches_acted, name, number) for name, number in acted.items()])


def counts(redis: Redis) -> dict[str, int]:
    """Return the number of jobs dropped or deferred, per class."""
    return hashes.wholes(redis.call("HGETALL", redis.keys.switches_acted))


def _read(name: str, stored: bytes) -> Switch | None:
    try:
        return _parse(name, cast("dict[str, Any]", json.loads(stored)))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _parse(name: str, fields: Mapping[str, Any]) -> Switch:
    action = fields["action"]
    if action not in {"drop", "defer"}:
        raise ValueError(action)
    until = fields.get("until")
    return Switch(
        name=name,
        action=action,
        delay_seconds=_seconds(fields["delay_seconds"]),
        keep=bool(fields.get("keep", True)),
        since=float(fields["since"]),
        until=None if until is None else float(until),
        by=str(fields.get("by", "")),
        reason=str(fields.get("reason", "")),
    )


def _seconds(value: object) -> float:
    """A delay limited to 0 seconds to 30 years: a script would reject a longer one when it defers the job."""
    return min(max(0.0, float(cast(float, value))), 1e9)


def _now(time: list[bytes]) -> float:
    seconds, microseconds = time
    return int(seconds) + int(microseconds) / 1_000_000
