"""What is counted of each run."""

from __future__ import annotations

import math
import threading
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from offsider.core.outcome import Failed, Succeeded
from offsider.core.series import BOUNDS_SECONDS, Series
from offsider.core.slo import Target
from offsider.inspector.job_metrics import BOUNDS_MS
from offsider.runtime.context import JobContext
from offsider.storage.execution_metrics import JobCounts
from offsider.worker.run_counts import SIDEKIQ_SECONDS, RunCounts
from offsider.worker.unit_of_work import Run, UnitOfWork


def unit(
    name: str = "A",
    seconds: float = 0.0,
    *,
    queue: str = "default",
    waited: float | None = 0.0,
    cpu: float | None = None,
    known: bool = True,
    **fields: object,
) -> UnitOfWork:
    made = UnitOfWork(queue, b"raw")
    payload = {"class": name, "args": [], "jid": "j", **fields}
    if waited is not None:
        payload["enqueued_at"] = round((1_000 - waited) * 1000)
    job = JobContext(payload, queue, declared=object() if known else None)
    made.run = Run(job, Succeeded(), 1_000.0, seconds, cpu)
    return made


def failed(run_counts: RunCounts, made: UnitOfWork, *, retried: bool = True) -> None:
    run = made.run
    assert run is not None
    run_counts.failed(made, replace(run, outcome=Failed(ValueError())), retried=retried)


@pytest.fixture
def run_counts() -> RunCounts:
    return RunCounts()


def only(series: list[Series]) -> Series:
    (one,) = series
    return one


def test_the_bounds_are_sidekiqs():
    assert [round(seconds * 1000) for seconds in SIDEKIQ_SECONDS] == list(BOUNDS_MS)


def test_runs_are_summed_by_class_for_sidekiq_and_by_class_and_queue_for_monitoring(run_counts):
    run_counts.finished([unit("A", 0.25), unit("A", 0.5, queue="other"), unit("B", 0.001)])
    taken = run_counts.take()
    assert [(job.name, job.processed, job.milliseconds) for job in taken.by_class()] == [("A", 2, 750), ("B", 1, 1)]
    assert {(one.labels["class"], one.labels["queue"], one.processed) for one in taken.series()} == {
        ("A", "default", 1),
        ("A", "other", 1),
        ("B", "default", 1),
    }


def test_an_active_job_counts_under_the_class_that_it_wraps(run_counts):
    wrapper = "Sidekiq::ActiveJob::Wrapper"
    run_counts.finished([unit(wrapper, 0.25, wrapped="MailJob"), unit(wrapper, 0.25), unit("A", wrapped="MailJob")])
    failed(run_counts, unit(wrapper, wrapped="MailJob"))
    failed(run_counts, unit(wrapper, wrapped=["odd"]))
    counts = {job.name: (job.processed, job.failed) for job in run_counts.take().by_class()}
    assert counts == {"MailJob": (3, 1), wrapper: (2, 1)}


def test_failures_are_runs_whose_time_sidekiq_does_not_count(run_counts):
    run_counts.finished([unit(seconds=0.025)])
    failed(run_counts, unit(seconds=4.0))
    failed(run_counts, unit(seconds=4.0), retried=False)
    taken = run_counts.take()
    assert taken.by_class() == [JobCounts("A", 3, 2, 25, [0, 1] + [0] * 24)]
    series = only(taken.series())
    assert (series.processed, series.failed, series.retried, series.run_seconds) == (3, 2, 1, 8.025)
    assert series.run_buckets == [1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0]


def test_queue_latency_is_counted_if_the_payload_has_a_time(run_counts):
    old = unit(waited=None, enqueued_at=998.5)
    ahead = unit(waited=-3.0)
    run_counts.finished([unit(waited=0.2), unit(waited=7.0), unit(waited=None), old, ahead])
    series = only(run_counts.take().series())
    assert series.queue_seconds == pytest.approx(0.2 + 7.0 + 1.5)
    assert series.queue_buckets == [1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0]
    assert series.processed == 5


def test_sampled_cpu_time_is_scaled_to_all_runs(run_counts):
    run_counts.finished([unit(seconds=1.0, cpu=0.25), unit(seconds=1.0), unit(seconds=2.0)])
    failed(run_counts, unit(seconds=1.0, cpu=0.25))
    assert only(run_counts.take().series()).cpu_seconds == pytest.approx(5.0 / 4)


def test_cpu_time_never_exceeds_the_duration_of_a_run(run_counts):
    run_counts.finished([unit(seconds=1.0, cpu=7.0), unit(seconds=1.0)])
    assert only(run_counts.take().series()).cpu_seconds == 2.0


def test_without_a_measured_run_there_is_no_cpu_time(run_counts):
    run_counts.finished([unit(seconds=1.0)])
    failed(run_counts, unit(seconds=1.0))
    assert only(run_counts.take().series()).cpu_seconds == 0


def test_unregistered_classes_and_units_without_a_run_are_not_counted(run_counts):
    failed(run_counts, unit(known=False))
    assert run_counts.finished([unit(known=False), UnitOfWork("default", b"raw")]) == []
    assert run_counts.take().series() == []


def test_retried_jobs_are_detected_by_their_jid(run_counts):
    assert run_counts.finished([unit(), unit(jid="again", retry_count=0), unit(jid="", retry_count=1)]) == ["again"]


def test_extra_labels_are_added_but_cannot_replace_class_and_queue(run_counts):
    run_counts.finished([unit()])
    asked = [lambda name, queue: {"team": f"{name}-{queue}"}, lambda *_: {"class": "x", "tier": "1"}]
    assert only(run_counts.take().series(asked)).labels == {
        "class": "A",
        "queue": "default",
        "team": "A-default",
        "tier": "1",
    }


def test_counts_that_could_not_be_written_are_added_to_new_ones(run_counts):
    run_counts.finished([unit(seconds=0.5, cpu=0.1, waited=1.0)])
    failed(run_counts, unit(seconds=0.5, waited=1.0))
    first = run_counts.take()
    run_counts.finished([unit(seconds=0.5, cpu=0.1, waited=1.0), unit("B")])
    run_counts.restore(first)
    taken = run_counts.take()
    assert [(job.name, job.processed, job.failed, job.milliseconds) for job in taken.by_class()] == [
        ("A", 3, 1, 1000),
        ("B", 1, 0, 0),
    ]
    both = taken.series()[0]
    assert (both.queue_seconds, both.retried, both.run_seconds) == (3.0, 1, 1.5)
    assert run_counts.take().series() == []


def test_threads_lose_nothing(run_counts):
    threads = [threading.Thread(target=lambda: [run_counts.finished([unit()]) for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    counted = 0
    while any(thread.is_alive() for thread in threads):
        counted += sum(one.processed for one in run_counts.take().series())
    assert counted + sum(one.processed for one in run_counts.take().series()) == 2000


@given(st.lists(st.floats(0, 1e6, allow_nan=False), max_size=30))
def test_both_histograms_count_each_run_once_in_its_bucket(durations):
    run_counts = RunCounts()
    run_counts.finished([unit(seconds=seconds) for seconds in durations])
    taken = run_counts.take()
    if not durations:
        assert taken.by_class() == []
        return
    (job,), series = taken.by_class(), Series({})
    for one in taken.series():
        series.add(one)
    for bounds, counts in ((SIDEKIQ_SECONDS, job.histogram), (BOUNDS_SECONDS, series.run_buckets)):
        for place, bound in enumerate(bounds):
            assert sum(counts[: place + 1]) == sum(seconds <= bound for seconds in durations)
        assert sum(counts) == len(durations)


# --------------------------------------------------------------------------------------- targets
PROMISED = {"Quick": Target(queue_seconds=10, run_seconds=5), "Bulk": Target(queue_seconds=math.inf, run_seconds=300)}


def satisfied(*units: UnitOfWork) -> list[int]:
    run_counts = RunCounts(PROMISED.__getitem__)
    run_counts.finished(units)
    return [one.satisfied for one in run_counts.take().series()]


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
    run_counts = RunCounts(PROMISED.__getitem__)
    failed(run_counts, unit("Quick"))
    assert [(one.processed, one.satisfied) for one in run_counts.take().series()] == [(1, 0)]


def test_without_a_promise_every_run_that_succeeds_keeps_it(run_counts):
    run_counts.finished([unit(seconds=1e6, waited=1e6)])
    assert only(run_counts.take().series()).satisfied == 1


def test_satisfied_runs_that_could_not_be_written_are_not_forgotten():
    run_counts = RunCounts(PROMISED.__getitem__)
    run_counts.finished([unit("Quick"), unit("Quick", 9.0)])
    taken = run_counts.take()
    run_counts.finished([unit("Quick")])
    run_counts.restore(taken)
    run_counts.finished([unit("Quick", waited=11.0)])
    series = only(run_counts.take().series())
    assert (series.processed, series.satisfied) == (4, 2)


@given(st.lists(st.tuples(st.floats(0, 20), st.one_of(st.none(), st.integers(0, 20_000))), max_size=20))
def test_counting_many_at_once_counts_as_one_by_one(runs):
    target = PROMISED["Quick"]
    units = [unit("Quick", took, waited=None if wait is None else wait / 1000) for took, wait in runs]
    expected = sum(took <= target.run_seconds and (wait or 0) / 1000 <= target.queue_seconds for took, wait in runs)
    assert sum(satisfied(*units)) == expected


def test_runs_are_counted_in_the_minute_in_which_they_ended(run_counts):
    """They began at 1,000 s; a minute begins at 1,020 s and at 1,080 s."""
    run_counts.finished([unit(seconds=19), unit(seconds=20), unit(seconds=79.5), unit(waited=None)])
    failed(run_counts, unit(seconds=100))
    taken = run_counts.take()
    counts = {minute: [job.processed for job in one.by_class()] for minute, one in taken.by_minute(1_100)}
    assert counts == {960: [2], 1_020: [2], 1_080: [1]}
    assert [minute for minute, _ in taken.by_minute(1_050)] == [960, 1_020]  # the clock was set back
    assert [(minute, one.counters) for minute, one in run_counts.take().by_minute(1_100)] == [(1_080, {})]
