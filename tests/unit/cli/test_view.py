"""Rates per second for the sparkline."""

from offsider.cli.demo.view import RATES, Rates


def test_seconds_without_anything_count_as_zero():
    rates = Rates()
    rates.add(0, 5)
    rates.add(0, 2)
    rates.add(3, 1)

    assert rates.whole_seconds() == [7, 0, 0]


def test_the_first_second_is_shown_before_it_is_over():
    rates = Rates()
    rates.add(0, 5)

    assert rates.whole_seconds() == [5]


def test_only_the_last_minute_is_kept():
    rates = Rates()
    rates.add(1000, 1)

    assert len(rates.whole_seconds()) == RATES - 1
