"""Kill switches, which make all workers drop or defer the jobs of a class until the switch is cleared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError, RedisFailure
from offsider.core.wording import shown
from offsider.inspector.all_servers import query_all, split
from offsider.inspector.process import ProcessSet
from offsider.storage import processes, switches
from offsider.storage.redis import Redis
from offsider.storage.switches import Switch

DEFER_SECONDS = 300.0
#: With a shorter delay a job would return to its queue all the time.
MIN_DEFER_SECONDS = 1.0
_MAX_SECONDS = 1e9
_MAX_LETTERS = 500


class InvalidSwitch(OffsiderError, ValueError):
    """A value of a switch is invalid. The message names the field and the expected value."""


class SwitchedInPart(RedisFailure):
    """A switch was changed on some servers and not on others. The message names them.

    Attributes:
        done: names of the servers with the change.
        failed: the error of each other server, by its name.
    """

    def __init__(self, name: str, done: Sequence[str], failed: Mapping[str, RedisFailure]) -> None:
        away = ", ".join(failed)
        super().__init__(
            f"the switch of {name} was changed on {', '.join(done)}, but not on {away}: repeat this when {away} is "
            f"reachable again ({next(iter(failed.values()))})"
        )
        self.done = tuple(done)
        self.failed = dict(failed)


@dataclass(frozen=True, slots=True)
class SwitchInForce(Switch):
    """The kill switch of one class.

    Attributes:
        name: job class.
        action: ``"drop"`` or ``"defer"``.
        delay_seconds: delay of a deferred job.
        keep: whether dropped jobs move to the quarantine, from which they can be restored; else they are deleted.
        since: time at which it was set, in epoch seconds.
        until: time at which it expires, in epoch seconds; None if it does not expire.
        by: who set it; empty if unknown.
        reason: reason given by that person.
        acted: number of jobs that it dropped or deferred.
        missing_on: servers that do not have it, because they were unreachable when it was set, or are new.
        differs_on: servers that have another switch for this class, because they were unreachable when it was set.
    """

    acted: int = 0
    missing_on: tuple[str, ...] = ()
    differs_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SwitchesSeen:
    """The switches of all servers.

    Attributes:
        switches: one per class, sorted; if servers differ, the switch of the first server that has one.
        away: unreachable servers with the error.
    """

    switches: Sequence[SwitchInForce]
    away: Mapping[str, RedisFailure]


class Switches:
    """The switches of all servers of a configuration. Iterating yields them sorted by class, as `look` does.

    Workers apply a change within two seconds. Running jobs continue.

    Args:
        config: selects the servers; default: the configuration of this process.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._here = Installation.of(config)

    def drop(
        self,
        name: str,
        *,
        delete: bool = False,
        lasting: float | timedelta | None = None,
        by: str = "",
        reason: str = "",
    ) -> None:
        """Move the jobs of a class to the quarantine instead of running them.

        Args:
            name: stored name of the class.
            delete: delete the jobs permanently instead.
            lasting: seconds or a timedelta until the switch expires; default: never.
            by: who sets the switch.
            reason: reason for it.

        Raises:
            InvalidSwitch: a value is invalid.
            SwitchedInPart: the switch was set on some servers only.
            RedisFailure: the switch was set on no server.
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
        """Reschedule the jobs of a class, repeatedly, instead of running them. This does not count as an attempt.

        Args:
            name: stored name of the class.
            seconds: delay, as seconds or a timedelta; at least 1 s.
            lasting: as for `drop`, like the other arguments and the errors.
        """
        delay_seconds = _seconds("seconds", seconds, least=MIN_DEFER_SECONDS)
        self._put(Switch(name, "defer", delay_seconds=delay_seconds, by=by, reason=reason), lasting)

    def clear(self, name: str) -> bool:
        """Let jobs of a class run again. Returns False if it has no switch.

        Raises:
            SwitchedInPart: the switch was cleared on some servers only.
            RedisFailure: the switch was cleared on no server.
        """
        return any(self._change(name, lambda redis: switches.clear(redis, name)))

    def look(self) -> SwitchesSeen:
        """Read the switches of all reachable servers. Raises RedisFailure if all are unreachable."""
        boards, away = split(query_all(self._here, _board))
        names = sorted({name for board in boards.values() for name in board.on})
        return SwitchesSeen([_merged(name, boards) for name in names], away)

    def find(self, name: str) -> SwitchInForce | None:
        """Return the switch of a class; None if it has none."""
        return next((switch for switch in self if switch.name == name), None)

    def __iter__(self) -> Iterator[SwitchInForce]:
        return iter(self.look().switches)

    def _put(self, switch: Switch, lasting: float | timedelta | None) -> None:
        for field, text in (("name", switch.name), ("by", switch.by), ("reason", switch.reason)):
            if len(text) > _MAX_LETTERS:
                raise InvalidSwitch(f"{field} of a switch expects at most {_MAX_LETTERS} characters, got {len(text)}")
        if not switch.name:
            raise InvalidSwitch("a switch needs the name of a class, as stored in its jobs")
        seconds = None if lasting is None else _seconds("lasting", lasting)
        self._change(switch.name, lambda redis: bool(switches.put(redis, switch, seconds=seconds)))

    def _change(self, name: str, act: Callable[[Redis], bool]) -> list[bool]:
        done, failed = split(query_all(self._here, lambda there: act(there.redis)))
        if failed:
            raise SwitchedInPart(name, list(done), failed)
        return list(done.values())


def switches_here(here: Installation) -> list[SwitchInForce]:
    """Return the switches of the configuration's own server, without waiting for other servers."""
    board = _board(here)
    return [SwitchInForce(**asdict(board.on[name]), acted=board.acted.get(name, 0)) for name in sorted(board.on)]


def known_jobs(here: Installation) -> frozenset[str]:
    """Return the job names of live workers on all servers; none if a server is unreachable. Ruby reports no names."""
    answers = query_all(here, _known_there)
    if any(isinstance(names, RedisFailure) for names in answers.values()):
        return frozenset()
    return frozenset(name for names in split(answers)[0].values() for name in names)


def _known_there(here: Installation) -> set[str]:
    identities = [process.identity for process in ProcessSet(here)]
    known = processes.published_jobs(here.redis, identities)
    return {name for names in known.values() for name in names}


@dataclass(frozen=True, slots=True)
class _Board:
    """The switches of one server, and the number of jobs that each has affected."""

    on: Mapping[str, Switch]
    acted: Mapping[str, int]


def _board(here: Installation) -> _Board:
    redis = here.redis
    on = switches.read(redis).on
    return _Board(on, switches.counts(redis) if on else {})


def _merged(name: str, boards: Mapping[str, _Board]) -> SwitchInForce:
    """Merge the switches of all servers for a class."""
    having = {server: board.on[name] for server, board in boards.items() if name in board.on}
    first = next(iter(having.values()))
    return SwitchInForce(
        **asdict(first),
        acted=sum(board.acted.get(name, 0) for board in boards.values()),
        missing_on=tuple(server for server in boards if server not in having),
        differs_on=tuple(server for server, other in having.items() if _content(other) != _content(first)),
    )


def _content(switch: Switch) -> tuple[object, ...]:
    """Return the fields to compare between servers, without times, since their clocks may differ."""
    lasting = None if switch.until is None else round(switch.until - switch.since)
    return switch.action, switch.delay_seconds, switch.keep, lasting, switch.by, switch.reason


def _seconds(field: str, value: float | timedelta, *, least: float = 0.0) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not max(least, 0.001) <= seconds <= _MAX_SECONDS:
        at_least = f"at least {least:g} s" if least else "a positive number of seconds"
        raise InvalidSwitch(f"{field} of a switch expects {at_least} (up to 1e9) or a timedelta, got {shown(value)}")
    return float(seconds)
