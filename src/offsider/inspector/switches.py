"""Switches: have all workers drop the jobs of a class, or put them off, until somebody says otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from offsider.core.errors import OffsiderError, RedisFailure
from offsider.inspector.everywhere import ask_all, split
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


class InvalidSwitch(OffsiderError, ValueError):
    """A switch cannot be set so. The message names the field and what it expects."""


class SwitchedInPart(RedisFailure):
    """Some servers have taken a change of a switch, and others have not. The message names them."""

    def __init__(self, name: str, done: Sequence[str], failed: Mapping[str, RedisFailure]) -> None:
        away = ", ".join(failed)
        super().__init__(
            f"the switch of {name} is changed on {', '.join(done)}, and not on {away}: do it once more when {away} is "
            f"back ({next(iter(failed.values()))})"
        )
        self.done = tuple(done)
        self.failed = dict(failed)


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
        differs_on: the servers that have another one for this class: one was away when this one was set.
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
    differs_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SwitchesSeen:
    """What is to be seen of all servers.

    Attributes:
        switches: by class; those of the first server stand above those of others.
        away: the servers that do not answer, and why.
    """

    switches: Sequence[SwitchInForce]
    away: Mapping[str, RedisFailure]


class Switches:
    """The switches of one installation, on all of its servers. Iterating gives them by class, as `look` does.

    A job that runs already goes on. Workers act upon a change within a second or two.

    Args:
        config: which servers; default: this process's.
    """

    def __init__(self, config: Config | None = None) -> None:
        self._config = config if config is not None else default_config()

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
            SwitchedInPart: a server did not take it; the others have it.
            RedisFailure: none has it.
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
            SwitchedInPart: a server did not take it; the others have.
            RedisFailure: none has.
        """
        return any(self._change(name, lambda redis: switches.clear(redis, name)))

    def look(self) -> SwitchesSeen:
        """The switches in force, of all servers that answer. Raises RedisFailure when none does."""
        boards, away = split(ask_all(self._config, _board))
        names = sorted({name for board in boards.values() for name in board.on})
        return SwitchesSeen([_merged(name, boards) for name in names], away)

    def find(self, name: str) -> SwitchInForce | None:
        """The switch of a class; None when its jobs run."""
        return next((switch for switch in self if switch.name == name), None)

    def __iter__(self) -> Iterator[SwitchInForce]:
        return iter(self.look().switches)

    def _put(self, switch: Switch, lasting: float | timedelta | None) -> None:
        for field, text in (("name", switch.name), ("by", switch.by), ("reason", switch.reason)):
            if len(text) > _MOST_LETTERS:
                raise InvalidSwitch(f"{field} of a switch has at most {_MOST_LETTERS} letters, got {len(text)}")
        if not switch.name:
            raise InvalidSwitch("a switch needs the name of a class, as it is stored in jobs")
        seconds = None if lasting is None else _seconds("lasting", lasting)
        self._change(switch.name, lambda redis: bool(switches.put(redis, switch, seconds=seconds)))

    def _change(self, name: str, act: Callable[[Redis], bool]) -> list[bool]:
        done, failed = split(ask_all(self._config, lambda there: act(there.shared_redis())))
        if failed:
            raise SwitchedInPart(name, list(done), failed)
        return list(done.values())


def switches_here(config: Config) -> list[SwitchInForce]:
    """Those of the configuration's own server, for whoever shall not wait for others."""
    board = _board(config)
    return [_in_force(board.on[name], board.acted.get(name, 0)) for name in sorted(board.on)]


def known_jobs(config: Config) -> frozenset[str]:
    """The names of jobs that live workers know, of all servers; none while one is away. Ruby's do not tell."""
    answers = ask_all(config, _known_there)
    if any(isinstance(names, RedisFailure) for names in answers.values()):
        return frozenset()
    return frozenset(name for names in split(answers)[0].values() for name in names)


def _known_there(config: Config) -> set[str]:
    identities = [process.identity for process in ProcessSet(config)]
    known = registered.known_to(config.shared_redis(), identities)
    return {name for names in known.values() for name in names}


@dataclass(frozen=True, slots=True)
class _Board:
    """The switches of one server, and how many jobs each has befallen."""

    on: Mapping[str, Switch]
    acted: Mapping[str, int]


def _board(config: Config) -> _Board:
    redis = config.shared_redis()
    on = switches.read(redis).on
    return _Board(on, switches.counts(redis) if on else {})


def _merged(name: str, boards: Mapping[str, _Board]) -> SwitchInForce:
    """What servers have for a class, as one."""
    having = {server: board.on[name] for server, board in boards.items() if name in board.on}
    first = next(iter(having.values()))
    return _in_force(
        first,
        sum(board.acted.get(name, 0) for board in boards.values()),
        tuple(server for server in boards if server not in having),
        tuple(server for server, other in having.items() if _told(other) != _told(first)),
    )


def _told(switch: Switch) -> tuple[object, ...]:
    """What is alike on all servers that were told the same; their clocks may differ."""
    lasting = None if switch.until is None else round(switch.until - switch.since)
    return switch.action, switch.delay_seconds, switch.keep, lasting, switch.by, switch.reason


def _in_force(
    switch: Switch, acted: int, missing_on: tuple[str, ...] = (), differs_on: tuple[str, ...] = ()
) -> SwitchInForce:
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
        differs_on=differs_on,
    )


def _seconds(field: str, value: float | timedelta, *, least: float = 0.0) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not math.isfinite(seconds) or not max(least, 0.001) <= seconds <= _MOST_SECONDS:
        at_least = f"at least {least:g} s" if least else "a positive number of seconds"
        raise InvalidSwitch(f"{field} of a switch expects {at_least} (up to 1e9) or a timedelta, got {value!r}")
    return seconds
