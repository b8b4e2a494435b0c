"""What is told of a run whose outcome is settled."""

from __future__ import annotations

import pytest

from offsider.core.errors import MalformedPayload
from offsider.wiring.context import JobContext
from offsider.worker.outcome import (
    Deferred,
    Dropped,
    Failed,
    Interrupted,
    Malformed,
    Outcome,
    Parked,
    Run,
    Skipped,
    Succeeded,
)
from offsider.worker.report import Reporter
from offsider.worker.unit_of_work import UnitOfWork
from offsider.worker.work_state import WorkState


def unit(outcome: Outcome, jid: str = "a", started_at: float = 1_005.0) -> UnitOfWork:
    unit = UnitOfWork("default", b"raw")
    unit.started_at = started_at
    job = JobContext({"class": "J", "args": [], "jid": jid, "enqueued_at": 1_000_000}, "default")
    unit.run = Run(None if isinstance(outcome, Malformed) else job, outcome, 1.5, 0.25)
    return unit


@pytest.fixture
def state() -> WorkState:
    return WorkState()


@pytest.fixture
def reporter(config, state) -> Reporter:
    return Reporter(config, state)


@pytest.fixture
def told(config):
    news = []
    config.on("execution_finished", news.append)
    return news


def test_acknowledged_jobs_are_counted_together_and_told_one_by_one(reporter, state, told):
    reporter.finished([unit(Succeeded(), "a"), unit(Skipped("enough"), "b"), unit(Succeeded(), "c")])
    assert state.take_counts() == (3, 0)
    assert [(news.job.jid, news.outcome) for news in told] == [("a", "succeeded"), ("b", "skipped"), ("c", "succeeded")]
    assert {(news.duration_seconds, news.cpu_seconds, news.queued_seconds) for news in told} == {(1.5, 0.25, 5.0)}


def test_without_a_listener_they_are_counted(reporter, state):
    reporter.finished([unit(Succeeded())])
    assert state.take_counts() == (1, 0)


def test_a_unit_that_was_acknowledged_without_a_run_is_counted_and_not_told(reporter, state, told):
    reporter.finished([UnitOfWork("default", b"raw")])
    assert (state.take_counts(), told) == ((1, 0), [])


def test_nothing_is_told_of_nothing(reporter, state, told):
    reporter.finished([])
    assert (state.take_counts(), told) == ((0, 0), [])


@pytest.mark.parametrize(
    "ending, counts, word",
    [
        ((Failed(ValueError("boom")), False), (1, 1), "failed"),
        ((Failed(ValueError("boom")), True), (1, 1), "died"),
        ((Interrupted(), False), (0, 0), "interrupted"),
    ],
)
def test_every_other_outcome_is_told_when_it_is_written(config, told, ending, counts, word):
    outcome, died = ending
    done, state = unit(outcome), WorkState()
    Reporter(config, state).settled(done, done.run, died=died)
    assert state.take_counts() == counts
    assert [news.outcome for news in told] == [word]


def test_of_bytes_that_are_no_job_only_the_error_is_told(reporter, state, told, reports):
    error = MalformedPayload(b"raw", "not JSON")
    done = unit(Malformed(error))
    reporter.settled(done, done.run, died=False)
    assert (state.take_counts(), told) == ((0, 0), [])
    assert reports == [(error, {"context": "a malformed payload", "jobstr": b"raw"})]


class Heard:
    """Stands in for the part that tells of parked jobs."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Parked]] = []

    def tell(self, job: JobContext, outcome: Parked) -> None:
        self.told.append((job.jid, outcome))


def test_a_job_that_could_not_run_is_told_elsewhere_and_counts_as_no_run(config, state, told):
    heard = Heard()
    parked = Parked(b"{}", 5.0, "not declared here", nobody=True)
    for reporter in (Reporter(config, state, abilities=heard), Reporter(config, state)):
        reporter.settled(unit(parked), unit(parked).run, died=False)
    assert heard.told == [("a", parked)]
    assert (state.take_counts(), told) == ((0, 0), [])


def test_of_a_job_that_a_switch_has_stopped_only_its_removal_is_told_and_no_run_is_counted(config, state, told):
    removed = []
    config.on("job_removed", removed.append)
    reporter = Reporter(config, state)
    for outcome in (Deferred(60, "why"), Dropped("why", keep=True), Dropped("why", keep=False)):
        done = unit(outcome)
        reporter.settled(done, done.run, died=False)
    assert (state.take_counts(), told) == ((0, 0), [])
    assert [(one.where, one.how) for one in removed] == [("queue:default", "quarantine"), ("queue:default", "delete")]
