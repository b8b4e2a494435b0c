"""A clock that a test controls."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from offsider.config.config import Config
from offsider.config.default import default_config
from offsider.core.clock import Clock, as_seconds
from offsider.core.errors import ConfigurationError


class FakeClock(Clock):
    """A clock that changes only with `advance`, for tests of time.

    ::

        clock = FakeClock(datetime(2030, 1, 1, 12, tzinfo=UTC))
        with clock.installed(), testing.fake() as enqueued:
            remind.enqueue_in(timedelta(days=1), 42)
            clock.advance(timedelta(days=1))
            enqueued.drain(only_due=True)

    It is the clock of this process only: a real server decides by its own clock which jobs are due.

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
        """Seconds by which the clock has advanced."""
        return self._monotonic

    @property
    def as_datetime(self) -> datetime:
        """The same as `now`, in UTC."""
        return datetime.fromtimestamp(self._now, UTC)

    def advance(self, by: float | timedelta) -> None:
        """Advance by seconds or a timedelta. Raises ConfigurationError for a negative or too large value."""
        moved_seconds = as_seconds(by, "advance(by)", at_least=0, error=ConfigurationError)
        self._now += moved_seconds
        self._monotonic += moved_seconds

    @contextmanager
    def installed(self, config: Config | None = None) -> Generator[FakeClock, None, None]:
        """Use it as the clock of ``config``, by default this process's configuration, during the block.

        Raises:
            ConfigurationError: a worker runs with that configuration, which is therefore frozen.
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
