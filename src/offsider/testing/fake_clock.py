"""A clock that stands still until a test moves it."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from offsider.core.clock import Clock
from offsider.core.errors import ConfigurationError
from offsider.wiring.config import Config
from offsider.wiring.default import default_config


class FakeClock(Clock):
    """What `Clock` is to the system, for tests of time.

    ::

        clock = FakeClock(datetime(2030, 1, 1, 12, tzinfo=UTC))
        with clock.installed(), testing.fake() as enqueued:
            remind.enqueue_in(timedelta(days=1), 42)
            clock.advance(timedelta(days=1))
            enqueued.drain(only_due=True)

    It tells our side's time only: what is due in a real server is decided by that server's clock.

    Args:
        now: an aware datetime or epoch seconds; default: the present.

    Raises:
        ConfigurationError: ``now`` is a datetime without time zone.
    """

    def __init__(self, now: datetime | float | None = None) -> None:
        self._now = super().now() if now is None else _epoch_seconds(now)
        self._monotonic = 0.0

    def now(self) -> float:
        """Epoch seconds."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since this clock was made, by its own reckoning."""
        return self._monotonic

    @property
    def as_datetime(self) -> datetime:
        """The same as `now`, in UTC."""
        return datetime.fromtimestamp(self._now, UTC)

    def advance(self, by: float | timedelta) -> None:
        """Move on by seconds or a timedelta. Raises ConfigurationError when that is no way forward."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ConfigurationError(f"advance expects seconds, 0 or more, or a timedelta, got {by!r}")
        self._now += seconds
        self._monotonic += seconds

    @contextmanager
    def installed(self, config: Config | None = None) -> Generator[FakeClock, None, None]:
        """Make it the clock of ``config``, by default this process's, for the time of the block.

        Raises:
            ConfigurationError: a worker runs with that configuration, so it is frozen.
        """
        config = default_config() if config is None else config
        previous, config.clock = config.clock, self
        try:
            yield self
        finally:
            if not config.frozen:
                config.clock = previous


def _epoch_seconds(now: datetime | float) -> float:
    if not isinstance(now, datetime):
        return float(now)
    if now.utcoffset() is None:
        raise ConfigurationError(f"FakeClock expects an aware datetime or epoch seconds, got {now!r} without time zone")
    return now.timestamp()
