"""What the jobs noted becomes a rate."""

import struct

import pytest

from bench.compare.ledger import SLOT, Ledger, Run, lags_ms, rate_of

MS = 1_000_000


def run(start_ms: int, end_ms: int, *, process: int = 1, pushed_ms: int = 0) -> Run:
    return Run(pushed_ms * MS, start_ms * MS, end_ms * MS, 1, 1, process)


def test_the_rate_counts_from_the_first_start_to_the_last_end():
    runs = [run(100 + 10 * number, 110 + 10 * number) for number in range(100)]
    assert rate_of(runs).whole == pytest.approx(100)
    assert rate_of(runs).middle == pytest.approx(100)
    assert rate_of(runs).seconds == pytest.approx(1)


def test_with_two_workers_the_window_opens_when_both_have_begun():
    alone = [run(1 + 10 * number, 10 + 10 * number) for number in range(50)]
    both = [run(501 + 5 * number, 505 + 5 * number, process=1 + number % 2) for number in range(100)]
    rate = rate_of([*alone, *both])
    assert rate.opened_ns == 506 * MS
    assert rate.whole == pytest.approx(200, rel=0.02)


def test_a_slow_start_does_not_show_in_the_middle_rate():
    runs = [run(1, 1000), *(run(1000 + number, 1001 + number) for number in range(99))]
    assert rate_of(runs).whole < 100
    assert rate_of(runs).middle == pytest.approx(1000)


def test_a_run_that_finished_almost_nothing_has_no_rate():
    with pytest.raises(ValueError, match="only 3 of 100 jobs ended"):
        rate_of([*[run(1, 2)] * 3, *[run(1, 0)] * 97])


def test_lags_are_measured_from_push_to_start():
    assert list(lags_ms([run(15, 20, pushed_ms=10), run(0, 0, pushed_ms=10)])) == [5.0]


def test_harness_and_jobs_see_the_same_slots(tmp_path):
    ledger = Ledger(tmp_path / "slots", 3)
    assert not ledger.has_begun()
    with ledger.path.open("r+b") as file:
        for number in (0, 2):
            file.seek(number * SLOT.size)
            file.write(struct.pack("=qqqqqq", 1, 2, 3, 1, 1, 1))
    assert ledger.has_begun()
    assert ledger.done_from_the_start() == 1
    assert ledger.runs() == [(1, 2, 3, 1, 1, 1), (0, 0, 0, 0, 0, 0), (1, 2, 3, 1, 1, 1)]
