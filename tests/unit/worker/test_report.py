"""The events and counts of a run whose outcome is settled."""

from __future__ import annotations

import pytest

from offsider.core.errors import MalformedPayload, NoCapableWorker
from offsider.core.outcome import (
    Discarded,
    Failed,
    Interrupted,
    Malformed,
    NotStarted,
    Outcome,
    Rescheduled,
    Skipped,
    Succeeded,
)
from offsider.runtime.context import JobContext
from offsider.worker.disposition import Dead, Disposition, Done, Later, Moved, RequeuedFirst, RequeuedLast
from offsider.worker.fetch.fetcher import Settled
from offsider.worker.settle.report import IN_QUEUE_SECONDS, Reporter, queued_seconds
from offsider.worker.unit_of_work import Run, UnitOfWork
from offsider.worker.work_state import WorkState

DONE = Done()
DIED = {"class": "J", "args": [], "jid": "a"}


def settled(outcome: Outcome, jid: str = "a", disposition: Disposition = DONE, *, lost: bool = False) -> Settled:
    unit = UnitOfWork("default", b"raw")
    job = JobContext({"class": "J", "args": [], "jid": jid, "enqueued_at": 1_000_000}, "default")
    unit.run = Run(None if isinstance(outcome, Malformed) else job, outcome, 1_005.0, 1.5, 0.25)
    return Settled(unit, disposition, lost=lost)


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


def test_acknowledged_jobs_are_counted_together_and_emitted_one_by_one(reporter, state, told):
    reporter.settled([settled(Succeeded(), "a"), settled(Skipped("enough"), "b"), settled(Succeeded(), "c")])
    assert state.runs.take().totals == (3, 0)
    assert {(news.job.jid, news.outcome) for news in told} == {("a", "succeeded"), ("b", "skipped"), ("c", "succeeded")}
    assert {(news.duration_seconds, news.cpu_seconds, news.queued_seconds) for news in told} == {(1.5, 0.25, 5.0)}


def test_a_unit_that_never_ran_is_neither_counted_nor_emitted(reporter, state, told):
    reporter.settled([Settled(UnitOfWork("default", b"raw"), RequeuedLast())])
    assert (state.runs.take().totals, told) == ((0, 0), [])


BOOM = ValueError("boom")


@pytest.mark.parametrize(
    "outcome, disposition, counts, word",
    [
        (Failed(BOOM), Later("retry", b"", 5.0), (1, 1), "failed"),
        (Failed(BOOM), Dead(b"", DIED), (1, 1), "died"),
        (Failed(BOOM), Done(DIED), (1, 1), "died"),
        (Discarded(BOOM), Done(DIED), (1, 0), "discarded"),
        (Rescheduled(5), Later("schedule", b"", 5.0), (1, 0), "rescheduled"),
        (Interrupted(), RequeuedFirst(b""), (0, 0), "interrupted"),
    ],
)
def test_every_other_outcome_is_counted_and_emitted(config, told, reports, *, outcome, disposition, counts, word):
    state, deaths = WorkState(), []
    config.death_handlers.append(lambda payload, error: deaths.append((payload, error)))
    Reporter(config, state).settled([settled(outcome, disposition=disposition)])
    assert state.runs.take().totals == counts
    error = BOOM if isinstance(outcome, Failed) else None
    assert [(news.outcome, news.error) for news in told] == [(word, error)]
    assert [(reported, context["job"]["jid"]) for reported, context in reports] == ([(BOOM, "a")] if error else [])
    assert deaths == ([(DIED, BOOM)] if getattr(disposition, "died", None) else [])


@pytest.mark.parametrize("outcome", [Succeeded(), Failed(BOOM), Malformed(MalformedPayload(b"raw", "not JSON"))])
def test_a_void_run_logs_a_warning_and_is_neither_counted_nor_emitted(config, state, told, reports, *, caplog, outcome):
    lost = []
    config.on("lost_ownership", lost.append)
    Reporter(config, state).settled([settled(outcome, disposition=Dead(b"", DIED), lost=True)])
    assert (state.runs.take().totals, told, reports) == ((0, 0), [], [])
    assert [news.outcome for news in lost] == ([] if isinstance(outcome, Malformed) else [outcome.name])
    assert f"so the outcome of this run ({outcome.name}) is not stored" in caplog.text


def test_a_job_moved_by_middleware_is_neither_counted_nor_emitted(reporter, state, told):
    reporter.settled([settled(NotStarted("elsewhere", reason="held", name="moved"), disposition=Moved())])
    assert (state.runs.take().totals, told) == ((0, 0), [])


def test_broken_listeners_and_error_handlers_do_not_stop_the_others(config, state, told):
    def broken(*_):
        raise LookupError("broken itself")

    config.on("execution_finished", broken)
    config.error_handlers.append(broken)
    Reporter(config, state).settled([settled(Failed(BOOM), jid, Later("retry", b"", 5.0)) for jid in "ab"])
    assert [news.job.jid for news in told] == ["a", "b"]
    assert state.runs.take().totals == (2, 2)


class Noted:
    """Stands in for the part that keeps failures."""

    def __init__(self) -> None:
        self.kept: list[tuple[float | None, bool]] = []

    def note(self, run, job, error, kept_seconds, *, died) -> None:
        self.kept.append((kept_seconds, died))


def test_failures_are_kept_for_as_long_as_their_jobs(config, state):
    noted = Noted()
    config.worker.dead_timeout_seconds = 60.0
    dispositions = (Later("retry", b"", 5.0), Dead(b"", DIED), Done(DIED))
    Reporter(config, state, noted).settled([settled(Failed(BOOM), disposition=one) for one in dispositions])
    assert noted.kept == [(5.0 + IN_QUEUE_SECONDS, False), (60.0, True), (None, True)]


def test_bytes_that_are_not_a_job_emit_only_the_error(reporter, state, told, reports):
    error = MalformedPayload(b"raw", "not JSON")
    reporter.settled([settled(Malformed(error), disposition=Dead(b""))])
    assert (state.runs.take().totals, told) == ((0, 0), [])
    assert reports == [(error, {"context": "a malformed payload", "jobstr": b"raw", "next": "moved to the dead set"})]


class Heard:
    """Stands in for the part that reports stranded jobs."""

    def __init__(self) -> None:
        self.told: list[tuple[str, NotStarted]] = []

    def report(self, job: JobContext, outcome: NotStarted) -> None:
        self.told.append((job.jid, outcome))


def test_a_job_that_could_not_run_does_not_count_as_a_run(config, state, told):
    heard = Heard()
    stranded = NotStarted("schedule", 5.0, "not declared here", "stranded", b"{}")
    for reporter in (Reporter(config, state, stranded=heard), Reporter(config, state)):
        reporter.settled([settled(stranded, disposition=RequeuedLast())])
    assert heard.told == [("a", stranded)]
    assert (state.runs.take().totals, told) == ((0, 0), [])


def test_a_job_stopped_by_a_switch_emits_only_its_removal_and_counts_no_run(config, state, told):
    removed = []
    config.on("job_removed", removed.append)
    outcomes = (
        NotStarted("schedule", 60, "why", "deferred"),
        NotStarted("quarantine", reason="why", name="dropped"),
        NotStarted("gone", reason="why", name="dropped"),
    )
    Reporter(config, state).settled([settled(outcome) for outcome in outcomes])
    assert (state.runs.take().totals, told) == ((0, 0), [])
    assert [(one.where, one.how) for one in removed] == [("queue:default", "quarantine"), ("queue:default", "delete")]


@pytest.mark.parametrize(
    "options, error, disposition, then",
    [
        ({}, BOOM, Later("retry", b"", 36.7), "attempt 1 of 26, next in 37 s"),
        ({"retry": 3, "retry_count": 0}, BOOM, Later("retry", b"", 1_500.0), "attempt 2 of 4, next in 25 min"),
        ({"retry": True, "retry_count": 23}, BOOM, Later("retry", b"", 90_000.0), "attempt 25 of 26, next in 25 h"),
        ({"retry": 3, "retry_count": 2}, BOOM, Dead(b"", DIED), "attempt 4 of 4, moved to the dead set"),
        ({"retry": False}, BOOM, Done(DIED), "attempt 1 of 1, discarded"),
        ({"retry": "forged"}, BOOM, Dead(b"", DIED), "attempt 1 of 1, moved to the dead set"),
        ({"retry_for": 60}, BOOM, Later("retry", b"", 5.0), "attempt 1, next in 5 s"),
        ({}, NoCapableWorker("gone"), Dead(b"", DIED), "moved to the dead set"),
    ],
)
def test_the_report_of_a_failure_has_the_next_step(reporter, reports, *, options, error, disposition, then):
    one = settled(Failed(error), disposition=disposition)
    one.unit.run.job.payload.update(options)
    reporter.settled([one])
    assert [(reported, context["next"]) for reported, context in reports] == [(error, then)]


@pytest.mark.parametrize(
    "enqueued_at, queued",
    [(1_000_000, 5.0), (1_000.5, 4.5), (1_005_000, 0.0), (9_999_000, 0.0), (None, None), ("soon", None), (True, None)],
)
def test_the_queue_latency_of_a_job_is_measured(enqueued_at, queued):
    job = JobContext({"class": "J", "args": [], "enqueued_at": enqueued_at}, "default")
    assert queued_seconds(job, 1_005.0) == queued
