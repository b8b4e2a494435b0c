"""Switches: classes whose jobs are, for a while, dropped or put off instead of run, wherever they come up.

One hash holds them all, so that a worker reads them in one go and the server tells of a change to one key. Times are
the server's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from offsider.storage import hashes
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command, Script

SET_SWITCH = Script("set_switch")
FORGET_SWITCH = Script("forget_switch")

Action: TypeAlias = Literal["drop", "defer"]


@dataclass(frozen=True, slots=True)
class Switch:
    """What is done with the jobs of one class.

    Attributes:
        name: the class.
        action: ``"drop"`` or ``"defer"``.
        delay_seconds: after which a deferred job comes up again.
        keep: dropped jobs go to the quarantine; else they are deleted.
        since: epoch seconds at which it was set.
        until: epoch seconds at which it ends by itself; None: when somebody clears it.
        by: who has set it; empty when nobody said.
        reason: why, in their words.
    """

    name: str
    action: Action
    delay_seconds: float = 0.0
    keep: bool = True
    since: float = 0.0
    until: float | None = None
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """All switches at one moment.

    Attributes:
        on: those in force, by class.
        over: those whose time has passed, with what is stored of them.
        now: epoch seconds, by the server.
    """

    on: Mapping[str, Switch]
    over: Mapping[str, bytes]
    now: float


def put(redis: Redis, switch: Switch, *, seconds: float | None = None) -> Switch:
    """Set a switch, in place of the one that its class has, and count anew what it does.

    Args:
        seconds: after which it ends by itself; None: when it is cleared.

    Returns:
        It with its times.
    """
    now = _now(redis.call("TIME"))
    told: dict[str, Any] = {
        "action": switch.action,
        "delay_seconds": switch.delay_seconds,
        "keep": switch.keep,
        "since": now,
        "until": None if seconds is None else now + seconds,
        "by": switch.by,
        "reason": switch.reason,
    }
    stored = json.dumps(told, ensure_ascii=True, separators=(",", ":"))
    redis.run(SET_SWITCH, [redis.keys.switches, redis.keys.switches_acted], [switch.name, stored])
    return _parse(switch.name, told)


def clear(redis: Redis, name: str) -> bool:
    """Take a switch away. False when its class has none."""
    commands = [("HDEL", redis.keys.switches, name), ("HDEL", redis.keys.switches_acted, name)]
    return bool(redis.pipeline(commands)[0])


def forget(redis: Redis, name: str, stored: bytes) -> bool:
    """Take away a switch whose time has passed, unless it is another one by now."""
    keys = [redis.keys.switches, redis.keys.switches_acted]
    return bool(redis.run(FORGET_SWITCH, keys, [name, stored]))


def read(redis: Redis) -> Board:
    """All switches."""
    return board(redis.pipeline(look(redis.keys)))


def look(keys: Keys) -> list[Command]:
    """The commands whose replies `board` reads."""
    return [("TIME",), ("HGETALL", keys.switches)]


def board(replies: list[Any]) -> Board:
    """What the replies to `look` say. What cannot be read is no switch."""
    time, stored = replies
    now = _now(time)
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
    """Add to the numbers of jobs that switches have acted on."""
    redis.pipeline([("HINCRBY", redis.keys.switches_acted, name, number) for name, number in acted.items()])


def counts(redis: Redis) -> dict[str, int]:
    """The numbers of jobs that were acted on, by class."""
    return {name: int(number) for name, number in hashes.texts(redis.call("HGETALL", redis.keys.switches_acted))}


def _read(name: str, stored: bytes) -> Switch | None:
    try:
        return _parse(name, cast("dict[str, Any]", json.loads(stored)))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _parse(name: str, told: Mapping[str, Any]) -> Switch:
    action = told["action"]
    if action not in {"drop", "defer"}:
        raise ValueError(action)
    until = told.get("until")
    return Switch(
        name=name,
        action=action,
        delay_seconds=_seconds(told["delay_seconds"]),
        keep=bool(told.get("keep", True)),
        since=float(told["since"]),
        until=None if until is None else float(until),
        by=str(told.get("by", "")),
        reason=str(told.get("reason", "")),
    )


def _seconds(told: object) -> float:
    """Between none and 30 years, whatever is stored: more would be refused when the job is put off."""
    return min(max(0.0, float(cast(float, told))), 1e9)


def _now(time: list[bytes]) -> float:
    seconds, microseconds = time
    return int(seconds) + int(microseconds) / 1_000_000
