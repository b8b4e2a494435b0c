"""When something is due: five fields of cron, or a word such as ``@daily``, in a time zone.

Daylight saving is treated as Debian's cron does. An entry whose minute and hour are given comes exactly once a day: at
the end of the gap when its time does not exist, and the first time when it exists twice. One that has ``*`` as minute
or hour follows time as it passes, through the gap and both times through the hour that comes twice.

Where the search begins makes no difference: from any moment the same next tick is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from offsider.core.errors import ConfigurationError
from offsider.wiring.nearest import suggest

if TYPE_CHECKING:
    from cronsim import CronSim

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MISSING = 'periodic jobs need more: pip install "offsider[periodic]"'
#: From any moment it shows whether an expression ever comes.
_PROBE = datetime(2024, 1, 1, tzinfo=UTC)


class Cron:
    """The ticks of one expression in one time zone.

    Args:
        expression: five fields, or one of `ALIASES`.
        tz: name of a time zone, for example ``"Europe/Berlin"``.

    Raises:
        ConfigurationError: the expression is none or never comes, there is no such zone, or the extra ``periodic`` is
            not installed.
    """

    def __init__(self, expression: str, tz: str = "UTC") -> None:
        self.expression = expression
        self.tz = tz
        self._zone = zone_of(tz)
        self._fields = _fields_of(expression)
        self._words = _explained(expression, self._fields)

    def __repr__(self) -> str:
        return f"Cron({self.expression!r}, {self.tz!r})"

    def next_after(self, moment: float) -> int | None:
        """Epoch seconds of the first tick after ``moment``; None when there is none within 50 years."""
        return next(self.ticks_after(moment), None)

    def ticks_after(self, moment: float) -> Iterator[int]:
        """The ticks after ``moment``, epoch seconds, in their order."""
        last = int(moment // 1)
        for tick in _simulation(self._fields, datetime.fromtimestamp(last, UTC).astimezone(self._zone)):
            # By the clock on the wall the search begins anew in an hour that comes twice.
            at = int(tick.timestamp())
            if at > last:
                last = at
                yield at

    def ticks_within(self, after: float, until: float) -> Iterator[int]:
        """The ticks after ``after``, up to and including ``until``."""
        for tick in self.ticks_after(after):
            if tick > until:
                return
            yield tick

    def local(self, tick: float) -> datetime:
        """The moment as clocks of the zone show it."""
        return datetime.fromtimestamp(tick, self._zone)

    @property
    def words(self) -> str:
        """The expression for people, in English."""
        return self._words


def zone_of(name: str) -> tzinfo:
    """The time zone. Raises ConfigurationError when there is none of this name."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        hint = suggest(str(name), available_timezones()) or ", such as Europe/Berlin"
        raise ConfigurationError(f"tz expects the name of a time zone, got {name!r}{hint}") from None


def _simulation(fields: str, start: datetime) -> CronSim:
    try:
        from cronsim import CronSim
    except ImportError:
        raise ConfigurationError(MISSING) from None
    return CronSim(fields, start)


def _fields_of(expression: object) -> str:
    if not isinstance(expression, str):
        raise ConfigurationError(f'cron expects a string such as "*/5 * * * *", got {expression!r}')
    word = expression.strip()
    if word.startswith("@"):
        if word.lower() not in ALIASES:
            hint = suggest(word.lower(), ALIASES)
            raise ConfigurationError(f"cron: there is no {word}{hint}; there are {', '.join(ALIASES)}")
        return ALIASES[word.lower()]
    parts = word.split()
    if len(parts) != 5:
        seconds = ": a field for seconds is not supported, a minute is the shortest interval" if len(parts) == 6 else ""
        raise ConfigurationError(
            f"cron expects five fields (minute, hour, day, month, day of the week) or a word such as @daily, got "
            f"{expression!r}{seconds}"
        )
    return " ".join(parts)


def _explained(expression: str, fields: str) -> str:
    """The expression in words, once it is known to come."""
    try:
        simulation = _simulation(fields, _PROBE)
        next(simulation)
        return simulation.explain()
    except ConfigurationError:
        raise
    except StopIteration:
        raise ConfigurationError(f"cron: {expression!r} never comes") from None
    except Exception as error:  # noqa: BLE001 - the library names its own for most mistakes, and trips over some
        raise ConfigurationError(f"cron: {expression!r} cannot be read: {error}") from None
