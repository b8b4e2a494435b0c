"""A job is late as long as it was its turn and a thread was free."""

from bench.compare.ledger import Run
from bench.mixed.lateness import late_ms

MS = 1_000_000


def run(pushed: int, start: int, end: int) -> Run:
    return Run(pushed * MS, start * MS, end * MS, 1, 1, 1)


def test_waiting_for_a_thread_is_not_late():
    assert late_ms([run(1, 2, 50), run(1, 50, 60)], threads=1) == [1, 0]


def test_waiting_despite_a_free_thread_counts_as_lateness():
    assert late_ms([run(1, 2, 50), run(1, 50, 60)], threads=2) == [1, 48]


def test_only_the_time_with_a_free_thread_counts():
    both_busy_until_30 = [run(1, 1, 30), run(1, 1, 90)]
    assert late_ms([*both_busy_until_30, run(1, 70, 80)], threads=2)[2] == 40


def test_a_turn_starts_after_all_earlier_ones_have_started():
    assert late_ms([run(1, 41, 50), run(1, 42, 43)], threads=5) == [40, 1]


def test_a_push_after_the_turn_starts_the_count():
    assert late_ms([run(1, 1, 2), run(100, 103, 104)], threads=5) == [0, 3]
