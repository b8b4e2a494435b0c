"""Switches: have all workers drop the jobs of a class, or put them off, until somebody says otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from offsider.core.errors import OffsiderError, RedisFailure
from offsider.inspector.process import ProcessSet
from offsider.storage import registered, switches
from offsider.storage.redis import Redis
from offsider.storage.switches import Action, Switch
from offsider.wiring.config import Config
from offsider.wiring.default import default_config

DEFER_SECONDS = 300.0
#: A job that is put off for less would do nothing else but come back.
MIN_DEFER_SECONDS = 1.0
_MOST_SECONDS = 1e9
_MOST_LETTERS = 500

T = TypeVar("T")


class InvalidSwitch(OffsiderError, ValueError):
    """A switch cannot be set so. The message names the field and what it expects."""


@dataclass(frozen=True, slots=True)
class SwitchInForce:
    """What is done with the jobs of one class instead of running them.

    Attributes:
        name: the class.
        action: ``"drop"`` or ``"defer"``.
        delay_seconds: after which a deferred job comes up again.
        keep: dropped jobs go to the quarantine, from which they can be restored; else they are deleted.
        since: epoch seconds at which it was set.
        until: epoch seconds at which it ends by itself; None: when somebody clears it.
        by: who has set it; empty when nobody said.
        reason: why, in their words.
        acted: how many jobs it has befallen.
        missing_on: the servers that do not have it: one was away when it was set, or is new.
    """

    name: str
    action: Action
    delay_seconds: float
    keep: bool
    since: float
    until: float | None
    by: str
    reason: str
    acted: int
    missing_on: tuple[str, ...] = ()


class Switches:
    """The switches of one installation, on all of its servers. Iterating gives them by class.

    A job that runs already goes on. Workers act upon a change within a second or two.

    Args:
        config: which servers; default: this process's.
    """

    def __init__(self, config: Config | None = None) -> None:
        config = config if config is not None else default_config()
        self._servers = {name: config.redis_of(name) for name in config.servers}

    def drop(
        self,
        name: str,
        *,
        delete: bool = False,
        lasting: float | timedelta | None = None,
        by: str = "",
        reason: str = "",
    ) -> None:
        """Have jobs of a class put into the quarantine instead of run.

        Args:
            name: the class, as it is stored.
            delete: delete them for good.
            lasting: seconds, or a timedelta, after which the switch ends by itself.
            by: who wants it.
            reason: why.

        Raises:
            InvalidSwitch: a value is impossible.
            RedisFailure: a server did not take it; the others have it.
        """
        self._put(Switch(name, "drop", keep=not delete, by=by, reason=reason), lasting)

    def defer(
        self,
        name: str,
        seconds: float | timedelta = DEFER_SECONDS,
        *,
        lasting: float | timedelta | None = None,
        by: str = "",
        reason: str = "",
    ) -> None:
        """Have jobs of a class put off, again and again, instead of run. No try of theirs is used up.

        Args:
            name: the class, as it is stored.
            seconds: or a timedelta, after which each comes up again; 1 s at least.
            lasting: as for `drop`; the same for the others, and for what is raised.
        """
        delay_seconds = _seconds("seconds", seconds, least=MIN_DEFER_SECONDS)
        self._put(Switch(name, "defer", delay_seconds=delay_seconds, by=by, reason=reason), lasting)

    def clear(self, name: str) -> bool:
        """Let jobs of a class run again. False when it has no switch.

        Raises:
            RedisFailure: a server did not take it; the others have.
        """
        return any(self._everywhere(lambda redis: switches.clear(redis, name)))

    def find(self, name: str) -> SwitchInForce | None:
        """The switch of a class; None when its jobs run."""
        return next((switch for switch in self if switch.name == name), None)

    def __iter__(self) -> Iterator[SwitchInForce]:
        boards = {server: switches.read(redis).on for server, redis in self._servers.items()}
        found = {name: switch for on in reversed(boards.values()) for name, switch in on.items()}
        if not found:
            return
        counts = [switches.counts(redis) for redis in self._servers.values()]
        for name in sorted(found):
            acted = sum(count.get(name, 0) for count in counts)
            missing = tuple(server for server, on in boards.items() if name not in on)
            yield _in_force(found[name], acted, missing)

    def _put(self, switch: Switch, lasting: float | timedelta | None) -> None:
        for field, text in (("name", switch.name), ("by", switch.by), ("reason", switch.reason)):
            if len(text) > _MOST_LETTERS:
                raise InvalidSwitch(f"{field} of a switch has at most {_MOST_LETTERS} letters, got {len(text)}")
        if not switch.name:
            raise InvalidSwitch("a switch needs the name of a class, as it is stored in jobs")
        seconds = None if lasting is None else _seconds("lasting", lasting)
        self._everywhere(lambda redis: switches.put(redis, switch, seconds=seconds))

    def _everywhere(self, act: Callable[[Redis], T]) -> list[T]:
        """Act on each server, also when one before it failed."""
        done: list[T] = []
        failure: RedisFailure | None = None
        for redis in self._servers.values():
            try:
                done.append(act(redis))
            except RedisFailure as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return done


def switches_here(config: Config) -> list[SwitchInForce]:
    """Those of the configuration's own server, for whoever shall not wait for others."""
    redis = config.shared_redis()
    on = switches.read(redis).on
    counts = switches.counts(redis) if on else {}
    return [_in_force(on[name], counts.get(name, 0), ()) for name in sorted(on)]


def known_jobs(config: Config) -> frozenset[str]:
    """The names of jobs that live workers know, of all servers; Ruby's do not tell."""
    found: set[str] = set()
    for server in config.servers:
        there = config.for_server(server)
        identities = [process.identity for process in ProcessSet(there)]
        for names in registered.known_to(there.shared_redis(), identities).values():
            found.update(names)
    return frozenset(found)


def _in_force(switch: Switch, acted: int, missing_on: tuple[str, ...]) -> SwitchInForce:
    return SwitchInForce(
        name=switch.name,
        action=switch.action,
        delay_seconds=switch.delay_seconds,
        keep=switch.keep,
        since=switch.since,
        until=switch.until,
        by=switch.by,
        reason=switch.reason,
        acted=acted,
        missing_on=missing_on,
    )


def _seconds(field: str, value: float | timedelta, *, least: float = 0.0) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not math.isfinite(seconds) or not max(least, 0.001) <= seconds <= _MOST_SECONDS:
        at_least = f"at least {least:g} s" if least else "a positive number of seconds"
        raise InvalidSwitch(f"{field} of a switch expects {at_least} (up to 1e9) or a timedelta, got {value!r}")
    return seconds
