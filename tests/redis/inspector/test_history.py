"""What was processed and failed, by day."""

from __future__ import annotations

from datetime import date

import pytest

from offsider.core.errors import InvalidOptions
from offsider.inspector import History


def test_days_are_newest_first_and_zero_without_runs(config, raw_redis):
    raw_redis.mset(
        {
            "stat:processed:2026-03-01": 70,
            "stat:failed:2026-03-01": 7,
            "stat:processed:2026-02-27": 50,
            "stat:processed:2026-02-26": 1,
        }
    )
    history = History.read(3, config, until=date(2026, 3, 1))
    assert list(history.processed.items()) == [("2026-03-01", 70), ("2026-02-28", 0), ("2026-02-27", 50)]
    assert list(history.failed.items()) == [("2026-03-01", 7), ("2026-02-28", 0), ("2026-02-27", 0)]


def test_history_ends_today_and_covers_up_to_five_years(config):
    history = History.read(1825, config)
    assert len(history.processed) == 1825
    newest = date.fromisoformat(next(iter(history.processed)))
    assert abs((newest - date.fromtimestamp(config.clock.now())).days) <= 1  # noqa: DTZ012 - near enough


@pytest.mark.parametrize("days", [0, -1, 1826, 10**9])
def test_other_spans_are_refused(config, days):
    with pytest.raises(InvalidOptions, match=f"must be 1 to 1825, got {days}"):
        History.read(days, config)


def test_before_the_first_year_there_are_no_days(config):
    with pytest.raises(InvalidOptions, match="0001-01-05 is too early for a history of 10 days"):
        History.read(10, config, until=date(1, 1, 5))


def test_the_default_configuration_is_that_of_this_process(default_config, raw_redis):
    raw_redis.set("stat:failed:2026-03-01", 7)
    assert History.read(1, until=date(2026, 3, 1)).failed == {"2026-03-01": 7}
