"""A thread that takes jobs, runs them and has their outcome written; what it reports, and how it ends."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from offsider.core.errors import Discard, MalformedPayload, Reschedule, Shutdown
from offsider.core.payload import decode, encode
from offsider.wiring.context import JobContext, current_capsule
from offsider.worker.interrupt import Window
from offsider.worker.outcome import (
    Discarded,
    Failed,
    Interrupted,
    Malformed,
    Rescheduled,
    Run,
    Skipped,
    Succeeded,
)
from offsider.worker.processor import Processor
from offsider.worker.report import Reporter, queued_seconds
from offsider.worker.settlement import Settled
from offsider.worker.unit_of_work import UnitOfWork
from offsider.worker.work_state import WorkState

RAW = encode({"class": "J", "args": [], "jid": "a" * 24})


class Fetcher:
    """Hands out what the test gave it, then is quiet."""

    def __init__(self, *units):
        self.units = deque(units)

    def retrieve(self):
        unit = self.units.popleft() if self.units else None
        if isinstance(unit, BaseException):
            raise unit
        return unit


class Executor:
    """Answers an outcome without running anything; ``steps`` tells in which order things happened."""

    def __init__(self, outcome, steps):
        self.outcome, self.steps = outcome, steps
        self.window = Window()
        self.meanwhile = lambda unit: None

    def run(self, unit):
        self.steps.append("run")
        self.meanwhile(unit)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        job = None if isinstance(self.outcome, Malformed) else JobContext(decode(unit.raw), unit.queue, unit.raw)
        return Run(job, self.outcome, 1.5, 0.25)


class Settlement:
    """Writes nothing."""

    def __init__(self, settled, steps):
        self.settled, self.steps = settled, steps

    def settle(self, unit, run):
        self.steps.append("settle")
        if isinstance(self.settled, BaseException):
            raise self.settled
        return self.settled


class NoRunner:
    """There are no coroutines here."""

    def __init__(self):
        self.asked = []

    def cancel(self, thread_id):
        self.asked.append(thread_id)
        return False


class Scene:
    """A processor among stand-ins."""

    def __init__(self, config, units, outcome, settled):
        self.config = config
        self.steps: list[str] = []
        self.finished = []
        self.deaths = []
        self.work_state = WorkState()
        self.executor = Executor(outcome, self.steps)
        self.runner = NoRunner()
        config.on("execution_finished", self.finished.append)
        self.processor = Processor(
            config=config,
            capsule=config.capsules["default"],
            fetcher=Fetcher(*units),
            executor=self.executor,
            settlement=Settlement(settled, self.steps),
            work_state=self.work_state,
            reporter=Reporter(config, self.work_state),
            async_runner=self.runner,
            name="processor-of-the-test",
            died=lambda processor, error: self.deaths.append((processor, error, threading.current_thread().name)),
        )

    def run(self):
        self.processor.start()
        assert self.processor.join(10)
        return self


@pytest.fixture
def scene(config):
    def scene(outcome, settled=Settled.WRITTEN, units=None):
        units = [UnitOfWork("default", RAW)] if units is None else units
        return Scene(config, units, outcome, settled)

    return scene


def test_jobs_are_run_and_settled_one_after_the_other_until_the_fetcher_is_quiet(scene):
    ended = scene(Succeeded(), units=[UnitOfWork("default", RAW) for _ in range(3)]).run()

    assert ended.steps == ["run", "settle"] * 3
    assert not ended.processor.alive
    assert ended.processor.unit is None
    assert ended.deaths == []


def test_while_a_job_runs_the_worker_tells_so(scene, config):
    seen = []
    scene = scene(Succeeded())

    def look(unit):
        [work] = scene.work_state.running().values()
        seen.append((work.unit is unit, work.run_at, unit.started, scene.processor.unit is unit))
        seen.append(current_capsule())

    scene.executor.meanwhile = look
    scene.run()

    assert seen == [(True, config.clock.now(), True, True), config.capsules["default"]]
    assert scene.work_state.busy == 0


@pytest.mark.parametrize(
    "ending, counts, told",
    [
        ((Succeeded(), Settled.WRITTEN), (1, 0), "succeeded"),
        ((Failed(ValueError("boom")), Settled.WRITTEN), (1, 1), "failed"),
        ((Failed(ValueError("boom")), Settled.DIED), (1, 1), "died"),
        ((Discarded(Discard("old")), Settled.DIED), (1, 0), "discarded"),
        ((Rescheduled(5), Settled.WRITTEN), (1, 0), "rescheduled"),
        ((Skipped("nothing"), Settled.WRITTEN), (1, 0), "skipped"),
        ((Interrupted(), Settled.WRITTEN), (0, 0), "interrupted"),
    ],
)
def test_what_is_counted_and_told_of_each_outcome(ending, counts, told, scene, reports):
    outcome, settled = ending
    ended = scene(outcome, settled).run()

    assert ended.work_state.take_counts() == counts
    [news] = ended.finished
    error = outcome.error if isinstance(outcome, Failed) else None
    assert (news.outcome, news.error, news.job.jid) == (told, error, "a" * 24)
    assert (news.duration_seconds, news.cpu_seconds, news.queued_seconds) == (1.5, 0.25, None)
    assert [(its_error, context["job"]["jid"]) for its_error, context in reports] == (
        [] if error is None else [(error, "a" * 24)]
    )


@pytest.mark.parametrize("settled", [Settled.LOST, Settled.UNWRITTEN])
def test_a_void_run_is_neither_counted_nor_told(settled, scene, reports):
    ended = scene(Failed(ValueError("boom")), settled).run()

    assert ended.work_state.take_counts() == (0, 0)
    assert ended.finished == []
    assert reports == []
    assert ended.processor.unit is None


def test_a_payload_that_is_no_job_is_reported_with_its_bytes(scene, reports):
    error = MalformedPayload(b"no job", "not JSON")

    ended = scene(Malformed(error), units=[UnitOfWork("default", b"no job")]).run()

    assert reports == [(error, {"context": "a malformed payload", "jobstr": b"no job"})]
    assert ended.finished == []


def test_a_broken_listener_and_a_broken_error_handler_do_not_end_the_thread(scene, config):
    def broken(*_):
        raise LookupError("broken itself")

    config.on("execution_finished", broken)
    config.error_handlers.append(broken)

    ended = scene(Failed(ValueError("boom")), units=[UnitOfWork("default", RAW) for _ in range(2)]).run()

    assert ended.steps == ["run", "settle"] * 2
    assert ended.deaths == []
    assert len(ended.finished) == 2


@pytest.mark.parametrize("error", [RuntimeError("our own bug"), SystemExit(1), KeyboardInterrupt(), Shutdown()])
@pytest.mark.parametrize("where", ["fetch", "run", "settle"])
def test_an_error_of_the_steps_themselves_ends_the_thread_which_tells_so(where, error, scene):
    unit = UnitOfWork("default", RAW)
    ended = scene(
        error if where == "run" else Succeeded(),
        error if where == "settle" else Settled.WRITTEN,
        [error] if where == "fetch" else [unit, UnitOfWork("default", RAW)],
    ).run()

    assert ended.deaths == [(ended.processor, error, "processor-of-the-test")]
    assert ended.processor.unit is (None if where == "fetch" else unit)
    assert ended.work_state.busy == 0


def test_interrupting_asks_the_loop_first_and_then_the_thread(scene):
    scene = scene(Succeeded())
    scene.processor.interrupt()  # not started: nobody to reach
    assert scene.runner.asked == []

    inside, go_on = threading.Event(), threading.Event()

    def wait(unit):
        inside.set()
        assert go_on.wait(10)

    scene.executor.meanwhile = wait
    interrupted = []
    scene.executor.window.interrupt = lambda: interrupted.append("thread")  # type: ignore[method-assign]
    scene.processor.start()
    assert inside.wait(10)
    scene.processor.interrupt()
    scene.runner.cancel = lambda thread_id: True  # type: ignore[method-assign]
    scene.processor.interrupt()
    go_on.set()
    assert scene.processor.join(10)

    assert len(scene.runner.asked) == 1
    assert interrupted == ["thread"]


@pytest.mark.parametrize(
    "enqueued_at, queued",
    [(1_000_000, 5.0), (1_000.5, 4.5), (1_005_000, 0.0), (9_999_000, 0.0), (None, None), ("soon", None), (True, None)],
)
def test_how_long_a_job_lay_in_its_queue(enqueued_at, queued):
    job = JobContext({"class": "J", "args": [], "enqueued_at": enqueued_at}, "default")

    assert queued_seconds(job, 1_005.0) == queued


def test_nobody_knows_how_long_a_malformed_payload_lay_there():
    assert queued_seconds(None, 1_005.0) is None
    assert queued_seconds(JobContext({"class": "J", "args": []}, "default"), 1_005.0) is None


def test_a_signal_of_a_job_is_no_error_of_it(scene, reports):
    assert scene(Discarded(Discard("too old")), Settled.DIED).run().finished[0].error is None
    assert scene(Rescheduled(Reschedule(3).seconds)).run().finished[0].error is None
    assert reports == []
