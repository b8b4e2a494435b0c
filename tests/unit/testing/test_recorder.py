from __future__ import annotations

import pytest

from offsider import Client, Config, Discard, Reschedule, Skip, TooManyReschedules, UnknownJob, current_job, job
from offsider.core.errors import Waiting
from offsider.testing import FakeClock, NothingEnqueued, fake


@pytest.fixture
def enqueued():
    with fake() as recorder:
        yield recorder


@pytest.fixture
def ran():
    return []


@pytest.fixture
def note(ran):
    @job(name="note")
    def note(word: str, *, loud: bool = False) -> str:
        ran.append(word.upper() if loud else word)
        return word

    return note


@pytest.fixture
def parent(note):
    @job(name="parent")
    def parent(generations: int) -> None:
        note.enqueue(f"child of {generations}")
        if generations:
            parent.enqueue(generations - 1)

    return parent


# ---------------------------------------------------------------------------------------- looking


def test_a_job_is_kept_as_a_worker_would_read_it(enqueued, note):
    jid = note.using(queue="low", tags=["a"]).enqueue("hello", loud=True)
    (kept,) = enqueued.jobs
    assert (kept.name, kept.args, kept.kwargs, kept.queue, kept.at) == ("note", ["hello"], {"loud": True}, "low", None)
    assert kept.jid == jid
    assert kept.tags == ["a"]
    assert kept.payload["retry"] is True
    assert b'"class":"note"' in kept.raw


def test_jobs_are_in_order_and_can_be_viewed_by_job_and_by_queue(enqueued, note, parent):
    note.enqueue("a")
    parent.using(queue="low").enqueue(0)
    note.using(queue="low").enqueue("b")
    assert [kept.name for kept in enqueued] == ["note", "parent", "note"]
    assert [kept.args for kept in enqueued.jobs_of(note)] == [["a"], ["b"]]
    assert [kept.name for kept in enqueued.queues["low"]] == ["parent", "note"]
    assert enqueued.queues["nowhere"] == []
    assert len(enqueued) == 3


def test_clear_forgets_everything(enqueued, note):
    note.enqueue("a")
    enqueued.perform_one()
    note.enqueue("b")
    enqueued.clear()
    assert enqueued.jobs == enqueued.performed == []


# ---------------------------------------------------------------------------------------- running


def test_drain_runs_everything_including_jobs_enqueued_by_jobs(enqueued, parent, ran):
    parent.enqueue(1)
    assert enqueued.drain() == 4
    assert ran == ["child of 1", "child of 0"]
    assert enqueued.jobs == []
    assert [done.name for done in enqueued.performed] == ["parent", "note", "parent", "note"]


def test_scheduled_jobs_are_drained_by_default(enqueued, note, ran, config):
    with FakeClock().installed(config) as clock:
        note.enqueue_in(60, "later")
        assert enqueued.drain(only_due=True) == 0
        clock.advance(60)
        assert enqueued.drain(only_due=True) == 1
        note.enqueue_in(60, "much later")
        assert enqueued.drain() == 1
    assert ran == ["later", "much later"]


def test_a_failure_ends_the_drain_and_names_the_job(enqueued, note, ran):
    @job(name="flaky")
    def flaky(number: int) -> None:
        raise RuntimeError("no luck")

    flaky.enqueue(42)
    note.enqueue("after")
    with pytest.raises(RuntimeError, match="no luck") as raised:
        enqueued.drain()
    assert raised.value.__notes__ == ["while running the job flaky(42)"]
    assert [kept.name for kept in enqueued.jobs] == ["note"]
    assert enqueued.performed == []


def test_an_undeclared_job_cannot_be_drained(enqueued, config):

    Client(config).push({"class": "RubyJob", "args": []})
    with pytest.raises(UnknownJob, match="RubyJob"):
        enqueued.drain()


@pytest.mark.parametrize("again", [Reschedule(60), Waiting(60, "sleeps")], ids=lambda error: type(error).__name__)
def test_a_rescheduled_job_waits_for_the_next_drain(enqueued, ran, config, again):
    @job(name="patient")
    def patient() -> None:
        ran.append("asked")
        raise again

    patient.enqueue()
    with FakeClock(2e9).installed(config):
        assert enqueued.drain() == 1
        assert [kept.at for kept in enqueued.jobs] == [2e9 + 60]
        assert enqueued.perform_one() is None
    assert ran == ["asked", "asked"]
    assert len(enqueued.jobs) == 1
    assert enqueued.performed == []


def test_reschedules_are_counted_as_in_a_worker(enqueued, ran, config):
    @job(name="patient")
    def patient() -> None:
        ran.append(current_job().rescheduled_count)
        raise Reschedule(0, limit=2)

    patient.enqueue()
    with FakeClock(2e9).installed(config):
        enqueued.drain()
        enqueued.drain()
        with pytest.raises(TooManyReschedules):
            enqueued.drain()
    assert ran == [0, 1, 2]


@pytest.mark.parametrize("signal", [Discard, Skip])
def test_a_discarded_job_is_not_a_failure(enqueued, signal):
    @job(name="modest")
    def modest() -> None:
        raise signal

    modest.enqueue()
    assert enqueued.drain() == 1


def test_jobs_that_enqueue_themselves_for_ever_are_stopped(enqueued):
    @job(name="endless")
    def endless() -> None:
        endless.enqueue()

    endless.enqueue()
    with pytest.raises(AssertionError, match=r"reached its limit, and endless\(\) in queue default is still enqueued"):
        enqueued.drain(limit=5)
    assert len(enqueued.performed) == 5
    assert len(enqueued.jobs) == 1


def test_perform_one_runs_the_oldest_and_returns_its_result(enqueued, note, parent):
    parent.enqueue(0)
    note.enqueue("a")
    note.enqueue("b")
    assert enqueued.perform_one(note) == "a"
    assert [kept.args for kept in enqueued.jobs] == [[0], ["b"]]


def test_perform_one_raises_when_there_is_none(enqueued, note, parent):
    with pytest.raises(NothingEnqueued, match=r"^no job is enqueued$"):
        enqueued.perform_one()
    parent.enqueue(0)
    with pytest.raises(NothingEnqueued, match=r"^no job note is enqueued; there are jobs of parent$"):
        enqueued.perform_one(note)


def test_jobs_enqueued_by_drained_jobs_stay_recorded_after_the_block(parent):
    with fake() as recorder:
        parent.enqueue(0)
    assert recorder.drain() == 2


def test_server_middleware_of_the_configuration_and_of_the_test_runs(config, note):
    order = []

    def of_config(context):
        order.append("config")
        yield

    def of_test(context):
        order.append(f"test {context.name}")
        yield

    config.server_middleware.add(of_config)
    with fake(server_middleware=[of_test]) as recorder:
        note.enqueue("a")
        recorder.drain()
    assert order == ["config", "test note"]
    assert of_test not in config.server_middleware


def test_another_configuration_can_be_passed(note, ran):

    other = Config()
    other.server_middleware.add(lambda context: (yield) if ran.append("other") else None)
    with fake(config=other) as recorder:
        note.enqueue("a")
        recorder.drain()
    assert ran == ["other"]
