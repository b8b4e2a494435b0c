"""How many jobs were processed and failed on each day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from offsider.core.errors import InvalidOptions
from offsider.storage import stats
from offsider.wiring.config import Config
from offsider.wiring.default import default_config

#: Sidekiq keeps the counters of a day for five years.
MOST_DAYS = 1825


@dataclass(frozen=True, slots=True)
class History:
    """Runs by UTC day (``"2026-11-21"``), the newest first; a day without any has 0.

    Attributes:
        processed: runs that ended, well or not.
        failed: those among them that failed.
    """

    processed: dict[str, int]
    failed: dict[str, int]

    @classmethod
    def read(cls, days: int, config: Config | None = None, until: date | None = None) -> History:
        """Look back from a day, today by default.

        Raises:
            InvalidOptions: ``days`` is not from 1 to 1825, or there is no calendar so far back.
        """
        if not 1 <= days <= MOST_DAYS:
            raise InvalidOptions(f"the history has 1 to {MOST_DAYS} days, not {days}")
        config = config if config is not None else default_config()
        last = until if until is not None else datetime.fromtimestamp(config.clock.now(), UTC).date()
        try:
            dates = [(last - timedelta(days=back)).isoformat() for back in range(days)]
        except OverflowError:
            raise InvalidOptions(f"there are no {days} days before {last}") from None
        redis = config.shared_redis()
        processed, failed = (stats.days(redis, name, dates) for name in ("processed", "failed"))
        return cls(dict(zip(dates, processed, strict=True)), dict(zip(dates, failed, strict=True)))
