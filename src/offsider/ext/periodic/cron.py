"""Schedules: a cron expression of five fields, an alias such as ``@daily``, or an interval such as ``@every 10s``.

Daylight saving follows Debian's cron. An entry with a fixed minute and hour runs exactly once a day: at the end of the
gap if its time does not exist, and at the first occurrence if its time exists twice. An entry with ``*`` as minute or
hour runs whenever the clock shows its time: not in the gap, and in both occurrences of the repeated time. Clocks may
change by any amount, at any time of the day.

The ticks of an interval are the multiples of its seconds since the epoch, so all processes agree on them without a
stored start, and a restart does not move them.

The next tick does not depend on where the search starts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import count
from typing import TYPE_CHECKING, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from offsider.core.clock import as_seconds
from offsider.core.errors import ConfigurationError
from offsider.core.suggestions import suggest
from offsider.core.wording import counted

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
MISSING = 'periodic jobs need another package: pip install "offsider[periodic]"'
#: Start of the search for a first tick; any moment would do.
_PROBE = datetime(2024, 1, 1, tzinfo=UTC)
#: Clocks change at most once in this time.
_DAY_SECONDS = 24 * 60 * 60
_EVERY = re.compile(r"@every ([1-9][0-9]{0,8})s")


class Cron:
    """The ticks of a cron expression in a time zone.

    Args:
        expression: five fields, one of `ALIASES`, or an interval in seconds such as ``@every 10s``.
        tz: name of the time zone, for example ``"Europe/Berlin"``.

    Attributes:
        interval_seconds: of ``@every``; 0 for other expressions.
        words: the expression in words, in English.

    Raises:
        ConfigurationError: the expression is invalid or has no ticks, the time zone is unknown, or the extra
            ``periodic`` is not installed.
    """

    def __init__(self, expression: str, tz: str = "UTC") -> None:
        self.expression = expression
        self.tz = tz
        self._zone = zone_of(tz)
        self._next: tuple[float, int | None] | None = None
        self.interval_seconds = _interval_of(expression)
        if self.interval_seconds:
            self.words = f"Every {counted(self.interval_seconds, 'second')}"
        else:
            self._fields = _fields_of(expression)
            self.words = _explained(expression, self._fields)

    def __repr__(self) -> str:
        return f"Cron({self.expression!r}, {self.tz!r})"

    def next_after(self, moment: float) -> int | None:
        """Return the first tick after ``moment`` in epoch seconds; None if there is none within 50 years.

        The last answer is remembered: a service asks for it every few seconds.
        """
        known = self._next
        if known is None or known[0] != moment:
            known = self._next = (moment, next(self.ticks_after(moment), None))
        return known[1]

    def ticks_after(self, moment: float) -> Iterator[int]:
        """Yield the ticks after ``moment`` in epoch seconds, in order."""
        last = int(moment // 1)
        if self.interval_seconds:
            yield from count(last - last % self.interval_seconds + self.interval_seconds, self.interval_seconds)
        if any(field.startswith("*") for field in self._fields.split()[:2]):
            yield from self._ticks_by_the_clock(last)
            return
        for tick in _simulation(self._fields, datetime.fromtimestamp(last, UTC).astimezone(self._zone)):
            # The library searches by wall-clock time, so it may return earlier ticks in a repeated hour.
            at = int(tick.timestamp())
            if at > last:
                last = at
                yield at

    def _ticks_by_the_clock(self, last: int) -> Iterator[int]:
        """Yield the moments after ``last`` at which the clock shows a time of the expression.

        The library assumes that clocks change by whole hours, and not at midnight. So it searches only between changes,
        where the clock of the zone is that of UTC with an offset.
        """
        while True:
            first = last + 1
            offset = self._offset(first)
            for wall in _simulation(self._fields, datetime.fromtimestamp(last + offset, UTC)):
                at = int(wall.timestamp()) - offset
                change = self._change(first, at)
                if change:
                    last = change - 1
                    break
                yield at
                last = first = at
            else:
                return

    def _offset(self, moment: int) -> int:
        return int((datetime.fromtimestamp(moment, self._zone).utcoffset() or timedelta()).total_seconds())

    def _change(self, first: int, until: int) -> int:
        """Return the first moment at which the offset differs from that of ``first``; 0 if there is none."""
        offset = self._offset(first)
        for start in range(first, until, _DAY_SECONDS):
            end = min(start + _DAY_SECONDS, until)
            if self._offset(end) != offset:
                return start + bisect_left(range(start, end), True, key=lambda at: self._offset(at) != offset)
        return 0

    def local(self, tick: float) -> datetime:
        """Return a tick as local time of the zone."""
        return datetime.fromtimestamp(tick, self._zone)


def zone_of(name: str) -> tzinfo:
    """Return a time zone. Raises ConfigurationError if it is unknown."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        hint = suggest(str(name), available_timezones()) or ", such as Europe/Berlin"
        raise ConfigurationError(f"tz expects the name of a time zone, got {name!r}{hint}") from None


def schedule_of(cron: object, every: object) -> str:
    """Return the expression of an entry, which has either ``cron`` or ``every``.

    Args:
        cron: an expression, or None.
        every: whole seconds or a timedelta, or None.

    Raises:
        ConfigurationError: both or neither, or not an interval.
    """
    if every is None and cron is not None:
        return cast("str", cron)  # `Cron` checks it
    if cron is not None or every is None:
        raise ConfigurationError('it needs either cron="0 3 * * *" or every=10, as in register(job=ping, every=10)')
    interval_seconds = as_seconds(every, "every", at_least=1, error=ConfigurationError)
    if interval_seconds % 1:
        raise ConfigurationError(f"every must be whole seconds, got {every!r}")
    return f"@every {int(interval_seconds)}s"


def _interval_of(expression: object) -> int:
    if not isinstance(expression, str) or not expression.startswith("@every"):
        return 0
    found = _EVERY.fullmatch(expression)
    if found is None:
        raise ConfigurationError(f"cron: an interval is in seconds, as in @every 10s, got {expression!r}")
    return int(found[1])


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
            raise ConfigurationError(f"cron: unknown word {word}{hint}; known words: {', '.join(ALIASES)}")
        return ALIASES[word.lower()]
    parts = word.split()
    if len(parts) != 5:
        seconds = ": a field for seconds is not supported, but intervals are, as in every=10" if len(parts) == 6 else ""
        raise ConfigurationError(
            f"cron expects five fields (minute, hour, day, month, day of the week) or a word such as @daily, got "
            f"{expression!r}{seconds}"
        )
    return " ".join(parts)


def _explained(expression: str, fields: str) -> str:
    """Return the expression in words. Raises ConfigurationError if it is invalid or has no ticks."""
    try:
        simulation = _simulation(fields, _PROBE)
        next(simulation)
        return simulation.explain()
    except ConfigurationError:
        raise
    except StopIteration:
        raise ConfigurationError(f"cron: {expression!r} matches no date: check the day and the month") from None
    except Exception as error:  # noqa: BLE001 - the library raises its own error for most mistakes, and others for some
        raise ConfigurationError(f"cron: {expression!r} is invalid: {error}") from None
