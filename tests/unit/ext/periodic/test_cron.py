"""Expressions, their words, their mistakes, and the days on which clocks change."""

from __future__ import annotations

import sys
from datetime import datetime
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings, strategies as st

from offsider.core.errors import ConfigurationError
from offsider.ext.periodic.cron import ALIASES, Cron, zone_of
from tests.time_zones import HOUR, ticks_by_minutes

NEW_YORK = "America/New_York"


def at(*moment: int, tz: str = "UTC", fold: int = 0) -> int:
    return int(datetime(*moment, tzinfo=ZoneInfo(tz), fold=fold).timestamp())


def shown(cron: Cron, after: int, count: int) -> list[str]:
    return [f"{cron.local(tick):%d %H:%M %Z}" for tick in islice(cron.ticks_after(after), count)]


@pytest.mark.parametrize(
    "expression,after,expected",
    [
        ("*/5 * * * *", at(2026, 1, 1), at(2026, 1, 1, 0, 5)),
        ("@hourly", at(2026, 1, 1, 0, 0) - 1, at(2026, 1, 1)),
        ("@daily", at(2026, 1, 1), at(2026, 1, 2)),
        ("@midnight", at(2026, 1, 1), at(2026, 1, 2)),
        ("@weekly", at(2026, 1, 1), at(2026, 1, 4)),
        ("@Monthly", at(2026, 1, 1), at(2026, 2, 1)),
        ("@yearly", at(2026, 1, 1), at(2027, 1, 1)),
        ("@annually", at(2026, 1, 1), at(2027, 1, 1)),
        ("  0  0 29 2 *", at(2026, 1, 1), at(2028, 2, 29)),
        ("0 9 * * MON-FRI", at(2026, 1, 2, 10), at(2026, 1, 5, 9)),
        ("0 0 L * *", at(2026, 1, 1), at(2026, 1, 31)),
        ("0 0 LW * *", at(2026, 2, 1), at(2026, 2, 27)),
        ("0 0 * * MON#1", at(2026, 1, 1), at(2026, 1, 5)),
    ],
)
def test_the_next_tick(expression, after, expected):
    assert Cron(expression).next_after(after) == expected


def test_a_fraction_of_a_second_skips_no_tick():
    assert Cron("* * * * *").next_after(at(2026, 1, 1) - 0.5) == at(2026, 1, 1)
    assert Cron("* * * * *").next_after(at(2026, 1, 1) + 0.5) == at(2026, 1, 1, 0, 1)


@pytest.mark.parametrize(
    "expression,before,expected",
    [
        # Spring: 02:00 to 03:00 on the 8th does not exist.
        ("30 2 * * *", at(2026, 3, 7, 12, tz=NEW_YORK), ["08 03:00 EDT", "09 02:30 EDT"]),
        ("*/30 * * * *", at(2026, 3, 8, 1, 15, tz=NEW_YORK), ["08 01:30 EST", "08 03:00 EDT", "08 03:30 EDT"]),
        ("0 3 * * *", at(2026, 3, 7, 12, tz=NEW_YORK), ["08 03:00 EDT", "09 03:00 EDT"]),
        # Autumn: 01:00 to 02:00 on the 1st exists twice.
        ("30 1 * * *", at(2026, 10, 31, 12, tz=NEW_YORK), ["01 01:30 EDT", "02 01:30 EST"]),
        (
            "*/30 * * * *",
            at(2026, 11, 1, 0, 45, tz=NEW_YORK),
            ["01 01:00 EDT", "01 01:30 EDT", "01 01:00 EST", "01 01:30 EST", "01 02:00 EST"],
        ),
        # Begun within the second of the two hours, the tick of the first one is past.
        ("30 1 * * *", at(2026, 11, 1, 1, 10, tz=NEW_YORK, fold=1), ["02 01:30 EST"]),
    ],
)
def test_daily_entries_run_once_and_others_follow_elapsed_time_when_clocks_change(expression, before, expected):
    assert shown(Cron(expression, NEW_YORK), before, len(expected)) == expected


#: Zones and days on which their clocks change.
CHANGES = [
    ("America/New_York", (2026, 3, 8)),
    ("America/New_York", (2026, 11, 1)),
    ("Europe/Dublin", (2026, 3, 29)),  # winter time is the one that is "saved"
    ("Europe/Dublin", (2026, 10, 25)),
    ("Australia/Lord_Howe", (2026, 4, 5)),  # by half an hour
    ("Australia/Lord_Howe", (2026, 10, 4)),
    ("Antarctica/Troll", (2026, 3, 29)),  # by two hours
    ("Antarctica/Troll", (2026, 10, 25)),
    ("Asia/Beirut", (2026, 3, 29)),  # the day begins at 01:00
    ("Asia/Beirut", (2026, 10, 25)),  # the last hour of the day before is repeated
    ("America/Havana", (2026, 3, 8)),
    ("America/Sao_Paulo", (2018, 2, 18)),
    ("Africa/Cairo", (2026, 4, 24)),  # "24:00"
    ("Africa/Cairo", (2026, 10, 30)),
    ("America/Nuuk", (2026, 3, 29)),
    ("Asia/Pyongyang", (2015, 8, 15)),  # by half an hour at midnight
    ("Asia/Pyongyang", (2018, 5, 5)),
    ("America/Caracas", (2007, 12, 9)),
    ("Asia/Kathmandu", (1986, 1, 1)),  # by a quarter of an hour
    ("Pacific/Apia", (2011, 12, 30)),  # a day that does not exist
    ("UTC", (2026, 3, 29)),
]
MINUTES = st.sampled_from(["*", "*/7", "0", "30", "15,45", "*/30", "*/15", "59"])
HOURS = st.sampled_from(["*", "*/2", "0", "1", "2", "3", "1,2", "0-3", "23", "22-23"])
DAYS = st.sampled_from(["* * *", "* * *", "1 * *", "L * *", "* * SUN", "*/2 * *", "25-31 3,10,12 *"])


@settings(deadline=None, max_examples=25)
@given(
    minute=MINUTES,
    hour=HOURS,
    days=DAYS,
    change=st.sampled_from(CHANGES),
    starts=st.lists(st.integers(-20 * HOUR, 20 * HOUR), min_size=2, max_size=2),
)
def test_any_start_of_the_search_gives_the_ticks_of_the_clock(minute, hour, days, change, starts):
    tz, day = change
    expression = f"{minute} {hour} {days}"
    cron = Cron(expression, tz)
    middle = at(*day, tz=tz)
    end = middle + 26 * HOUR
    expected = ticks_by_minutes(expression, ZoneInfo(tz), middle - 26 * HOUR, end)
    for start in (middle - 26 * HOUR, *(middle + each for each in starts)):
        rest = [tick for tick in expected if tick > start]
        assert [*takewhile(lambda tick: tick <= end, cron.ticks_after(start))] == rest
        for before, after in pairwise([start, *rest[:30]]):
            assert cron.next_after(before) == after


@pytest.mark.parametrize("expression", ["* * 29 2 *", "*/5 0 1 1 *", "* 12 * 7 MON#1"])
@pytest.mark.parametrize("tz", ["Europe/Berlin", "Australia/Lord_Howe"])
def test_rare_ticks_are_found_across_changes_of_the_clocks(expression, tz):
    start = at(2026, 7, 31, tz=tz)
    first = next(CronSim(expression, datetime(2026, 7, 31)))  # noqa: DTZ001 - of any zone
    assert Cron(expression, tz).next_after(start) == int(first.replace(tzinfo=ZoneInfo(tz)).timestamp())


@pytest.mark.parametrize(
    "expression,says",
    [
        ("* * * *", "expects five fields"),
        ("", "expects five fields"),
        ("* * * * * *", "a field for seconds is not supported"),
        ("61 * * * *", "Bad minute"),
        ("0 0 31 2 *", "Bad day-of-month"),
        ("*L * * * *", "is invalid"),
        ("@dayly", r"unknown word @dayly \(did you mean '@daily'\?\)"),
        ("@reboot", "known words: @yearly"),
        (5, "expects a string"),
        ("@every 10", "an interval is in seconds, as in @every 10s"),
        ("@every 0s", "an interval is in seconds"),
    ],
)
def test_an_invalid_expression_is_refused(expression, says):
    with pytest.raises(ConfigurationError, match=says):
        Cron(expression)


def test_ticks_of_an_interval_are_multiples_since_the_epoch_in_every_zone(monkeypatch):
    monkeypatch.setitem(sys.modules, "cronsim", None)  # intervals need no library
    for tz in ("UTC", "Europe/Berlin"):
        cron = Cron("@every 10s", tz)
        assert [cron.next_after(moment) for moment in (0, 9.9, 10, 10.5, 19)] == [10, 10, 20, 20, 20]
        assert [*islice(cron.ticks_after(1_000_000_003), 3)] == [1_000_000_010, 1_000_000_020, 1_000_000_030]


def test_an_expression_without_ticks_is_refused(monkeypatch):
    monkeypatch.setattr(CronSim, "__next__", lambda self: next(iter(())))
    with pytest.raises(ConfigurationError, match="matches no date"):
        Cron("0 0 30 2 1#5")


@pytest.mark.parametrize("name", ["Europe/Berlinn", "", "../etc", None, "Nowhere"])
def test_an_unknown_time_zone_is_refused(name):
    with pytest.raises(ConfigurationError, match="tz expects the name of a time zone"):
        zone_of(name)


def test_a_similar_time_zone_is_suggested():
    with pytest.raises(ConfigurationError, match="did you mean 'Europe/Berlin'"):
        zone_of("Europe/Berlinn")


def test_the_missing_library_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(ConfigurationError, match=r'pip install "offsider\[periodic\]"'):
        Cron("* * * * *")


def test_an_expression_has_words():
    assert Cron("*/5 9-17 * * MON-FRI").words.startswith("Every fifth minute from 09:00")
    assert repr(Cron("@daily", "Europe/Berlin")) == "Cron('@daily', 'Europe/Berlin')"
    assert all(Cron(alias).words for alias in ALIASES)
