"""What the jobs noted becomes a rate."""

import os

import pytest

from bench.slots import Run, Slots, rate_of

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
    assert rate.whole == pytest.approx(200, rel=0.02)


def test_a_run_that_finished_almost_nothing_has_no_rate():
    with pytest.raises(ValueError, match="only 3 of 100 jobs ended"):
        rate_of([*[run(1, 2)] * 3, *[run(1, 0)] * 97])


def test_harness_and_jobs_see_the_same_slots(tmp_path):
    slots = Slots(tmp_path / "slots", 3)
    assert not slots.has_begun()
    jobs = Slots(slots.path)
    for number in (0, 2):
        jobs.pushed(number)
        jobs.started(number)
    assert slots.has_begun()
    assert slots.done_from_the_start() == 0
    for number in (0, 2):
        jobs.ended(number)
    jobs.started(2)
    assert slots.done_from_the_start() == 1
    first, second, third = slots.runs()
    assert 0 < first.pushed <= first.start <= first.end
    assert (first.starts, first.ends, first.process) == (1, 1, os.getpid())
    assert second == (0, 0, 0, 0, 0, 0)
    assert (third.starts, third.ends, third.end) == (2, 1, 0)
