"""What is counted of each run."""

from __future__ import annotations

import math
import threading
from typing import TypeVar

import pytest
from hypothesis import given, strategies as st

from offsider.core.series import BOUNDS_SECONDS, SIDEKIQ_SECONDS, Series, Target, regroup, summed
from offsider.worker.run_account import Ended, RunAccount, Taken
from offsider.worker.unit_of_work import UnitOfWork
from tests.runs import fail, unit

T = TypeVar("T")


@pytest.fixture
def runs() -> RunAccount:
    return RunAccount()


def by_class(taken: Taken) -> list[Series]:
    return summed(taken.series(), ["class"])


def only(found: list[T]) -> T:
    (one,) = found
    return one


def test_runs_are_counted_by_class_and_queue(runs):
    runs.finished([unit("A", 0.25), unit("A", 0.5, queue="other"), unit("B", 0.001)])
    assert {(one.labels["class"], one.labels["queue"], one.run_seconds) for one in runs.take().series()} == {
        ("A", "default", 0.25),
        ("A", "other", 0.5),
        ("B", "default", 0.001),
    }


def test_an_active_job_counts_under_the_class_that_it_wraps(runs):
    wrapper = "Sidekiq::ActiveJob::Wrapper"
    runs.finished([unit(wrapper, 0.25, wrapped="MailJob"), unit(wrapper, 0.25), unit("A", wrapped="MailJob")])
    fail(runs, unit(wrapper, wrapped="MailJob"))
    fail(runs, unit(wrapper, wrapped=["odd"]))
    counts = {one.labels["class"]: (one.processed, one.failed) for one in by_class(runs.take())}
    assert counts == {"MailJob": (3, 1), wrapper: (2, 1)}


def test_the_time_of_failures_is_counted_apart_because_sidekiq_does_not_store_it(runs):
    runs.finished([unit(seconds=0.025)])
    fail(runs, unit(seconds=4.0))
    fail(runs, unit(seconds=4.0), retried=False)
    series = only(runs.take().series())
    assert (series.processed, series.failed, series.retried) == (3, 2, 1)
    assert (series.run_seconds, series.failed_seconds) == (8.025, 8.0)
    assert regroup(series.run_buckets, BOUNDS_SECONDS) == [1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0]
    assert regroup(series.failed_buckets, SIDEKIQ_SECONDS) == [0] * 14 + [2] + [0] * 11


def test_queue_latency_is_counted_if_the_payload_has_a_time(runs):
    old = unit(waited=None, enqueued_at=998.5)
    ahead = unit(waited=-3.0)
    runs.finished([unit(waited=0.2), unit(waited=7.0), unit(waited=None), old, ahead])
    series = only(runs.take().series())
    assert series.queue_seconds == pytest.approx(0.2 + 7.0 + 1.5)
    assert series.queue_buckets == [1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0]
    assert series.processed == 5


@pytest.mark.parametrize(
    "cpu_times, expected",
    [([0.25, None, None, 0.25], 1.0), ([7.0, None], 2.0), ([None], 0.0)],
    ids=["scaled to all runs", "never above the duration", "not measured"],
)
def test_cpu_time_is_estimated_from_measured_runs(runs, cpu_times, expected):
    runs.finished([unit(seconds=1.0, cpu=cpu) for cpu in cpu_times[1:]])
    fail(runs, unit(seconds=1.0, cpu=cpu_times[0]))
    assert only(runs.take().series()).cpu_seconds == pytest.approx(expected)


def test_runs_of_unregistered_classes_are_only_in_the_totals(runs):
    fail(runs, unit("Odd", known=False))
    assert runs.finished([unit("Odder", known=False), UnitOfWork("default", b"raw")]) == []
    taken = runs.take()
    assert (taken.totals, taken.series()) == ((2, 1), [])


def test_totals_are_taken_before_the_counts_of_classes_and_only_once(runs):
    runs.finished([unit("A"), unit("B")])
    fail(runs, unit("A"))
    assert runs.take(classes=False).totals == (3, 1)
    assert runs.take(classes=False).totals == (0, 0)
    runs.finished([unit("A")])
    unwritten = runs.take(classes=False)
    runs.restore(unwritten)
    taken = runs.take()
    assert taken.totals == unwritten.totals == (1, 0)
    assert {one.labels["class"]: one.processed for one in taken.series()} == {"A": 3, "B": 1}
    runs.restore(taken)
    again = runs.take()
    assert (again.totals, sum(one.processed for one in again.series())) == ((1, 0), 4)


def test_results_of_all_jobs_are_kept_although_their_counts_are_written(runs):
    runs.finished([unit(), unit()])
    fail(runs, unit())
    runs.take()
    before = runs.ended
    assert before == Ended(finished=2, failed=1)
    runs.finished([unit()])
    runs.requeued(2)
    assert runs.ended.since(before) == "1 job finished, 2 requeued, 0 failed"


def test_retried_jobs_are_detected_by_their_jid(runs):
    assert runs.finished([unit(), unit(jid="again", retry_count=0), unit(jid="", retry_count=1)]) == ["again"]


def test_extra_labels_are_added_but_cannot_replace_class_and_queue(runs):
    runs.finished([unit()])
    asked = [lambda name, queue: {"team": f"{name}-{queue}"}, lambda *_: {"class": "x", "tier": "1"}]
    assert only(runs.take().series(asked)).labels == {
        "class": "A",
        "queue": "default",
        "team": "A-default",
        "tier": "1",
    }


def test_counts_that_could_not_be_written_are_added_to_new_ones(runs):
    runs.finished([unit(seconds=0.5, cpu=0.1, waited=1.0)])
    fail(runs, unit(seconds=0.5, waited=1.0))
    first = runs.take()
    runs.finished([unit(seconds=0.5, cpu=0.1, waited=1.0), unit("B")])
    runs.restore(first)
    taken = runs.take()
    assert [(one.labels["class"], one.processed, one.failed, one.run_seconds) for one in taken.series()] == [
        ("A", 3, 1, 1.5),
        ("B", 1, 0, 0.0),
    ]
    both = taken.series()[0]
    assert (both.queue_seconds, both.retried, both.failed_seconds) == (3.0, 1, 0.5)
    assert runs.take().series() == []


def test_threads_lose_nothing(runs):
    threads = [threading.Thread(target=lambda: [runs.finished([unit()]) for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    counted = 0
    while any(thread.is_alive() for thread in threads):
        counted += sum(one.processed for one in runs.take().series())
    assert counted + sum(one.processed for one in runs.take().series()) == 2000


@given(st.lists(st.floats(0, 1e6, allow_nan=False), max_size=30))
def test_both_histograms_count_each_run_once_in_its_bucket(durations):
    runs = RunAccount()
    runs.finished([unit(seconds=seconds) for seconds in durations])
    counted = [one.run_buckets for one in by_class(runs.take())] or [Series({}).run_buckets]
    for bounds in (SIDEKIQ_SECONDS, BOUNDS_SECONDS):
        counts = regroup(only(counted), bounds)
        for place, bound in enumerate(bounds):
            assert sum(counts[: place + 1]) == sum(seconds <= bound for seconds in durations)
        assert sum(counts) == len(durations)


# --------------------------------------------------------------------------------------- targets
PROMISED = {"Quick": Target(queue_seconds=10, run_seconds=5), "Bulk": Target(queue_seconds=math.inf, run_seconds=300)}


def satisfied(*units: UnitOfWork) -> list[int]:
    runs = RunAccount(PROMISED.__getitem__)
    runs.finished(units)
    return [one.satisfied for one in runs.take().series()]


def test_runs_that_began_and_ended_in_time_are_satisfied():
    assert satisfied(unit("Quick", 5.0, waited=10.0), unit("Quick", 0.1)) == [2]
    late, long, both = unit("Quick", waited=10.5), unit("Quick", 5.1), unit("Quick", 6.0, waited=11.0)
    assert satisfied(unit("Quick", 1.0), late, long, both, unit("Quick", 2.0)) == [2]


def test_a_class_that_may_wait_for_ever_is_judged_by_its_runs():
    assert satisfied(unit("Bulk", 299.0, waited=1e6), unit("Bulk", 301.0)) == [1]


def test_an_unknown_queue_time_does_not_miss_the_target():
    untold = unit("Quick", waited=None)
    assert satisfied(unit("Quick", 9.0, waited=0.0), untold, unit("Quick", waited=99.0), unit("Quick", waited=1.0)) == [
        2
    ]
    assert satisfied(unit("Quick", 9.0, waited=None)) == [0]


def test_failures_are_never_satisfied():
    runs = RunAccount(PROMISED.__getitem__)
    fail(runs, unit("Quick"))
    assert [(one.processed, one.satisfied) for one in runs.take().series()] == [(1, 0)]


def test_satisfied_runs_that_could_not_be_written_are_not_forgotten():
    runs = RunAccount(PROMISED.__getitem__)
    runs.finished([unit("Quick"), unit("Quick", 9.0)])
    taken = runs.take()
    runs.finished([unit("Quick")])
    runs.restore(taken)
    runs.finished([unit("Quick", waited=11.0)])
    series = only(runs.take().series())
    assert (series.processed, series.satisfied) == (4, 2)


@given(st.lists(st.tuples(st.floats(0, 20), st.one_of(st.none(), st.integers(0, 20_000))), max_size=20))
def test_counting_many_at_once_counts_as_one_by_one(runs):
    target = PROMISED["Quick"]
    units = [unit("Quick", took, waited=None if wait is None else wait / 1000) for took, wait in runs]
    expected = sum(took <= target.run_seconds and (wait or 0) / 1000 <= target.queue_seconds for took, wait in runs)
    assert sum(satisfied(*units)) == expected


def test_runs_are_counted_in_the_minute_in_which_they_ended(runs):
    """They began at 1,000 s; a minute begins at 1,020 s and at 1,080 s."""
    runs.finished([unit(seconds=19), unit(seconds=20), unit(seconds=79.5), unit(waited=None)])
    fail(runs, unit(seconds=100))
    taken = runs.take()
    counts = {minute: [each.processed for each in by_class(one)] for minute, one in taken.by_minute(1_100)}
    assert counts == {960: [2], 1_020: [2], 1_080: [1]}
    assert [minute for minute, _ in taken.by_minute(1_050)] == [960, 1_020]  # the clock was set back
    assert [(minute, one.counts) for minute, one in runs.take().by_minute(1_100)] == [(1_080, {})]
