"""Numbers of processed and failed runs by day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import InvalidOptions
from offsider.storage import stats

#: Sidekiq stores the counters of a day for five years.
MOST_DAYS = 1825


@dataclass(frozen=True, slots=True)
class History:
    """Runs by UTC day (``"2026-11-21"``), newest first; a day without runs has 0.

    Attributes:
        processed: finished runs, successful or failed.
        failed: failed runs.
    """

    processed: dict[str, int]
    failed: dict[str, int]

    @classmethod
    def read(cls, days: int, config: Config | Installation | None = None, until: date | None = None) -> History:
        """Read a number of days up to ``until``, today by default.

        Raises:
            InvalidOptions: ``days`` is not from 1 to 1825, or the first day is before the year 1.
        """
        if not 1 <= days <= MOST_DAYS:
            raise InvalidOptions(f"days of the history must be 1 to {MOST_DAYS}, got {days}")
        here = Installation.of(config)
        last = until if until is not None else datetime.fromtimestamp(here.config.clock.now(), UTC).date()
        try:
            dates = [(last - timedelta(days=back)).isoformat() for back in range(days)]
        except OverflowError:
            raise InvalidOptions(f"{last} is too early for a history of {days} days") from None
        redis = here.redis
        processed, failed = (stats.days(redis, name, dates) for name in ("processed", "failed"))
        return cls(dict(zip(dates, processed, strict=True)), dict(zip(dates, failed, strict=True)))
