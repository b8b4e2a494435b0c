"""A thread that fetches jobs, runs them and has their outcome written; its reports, and its end."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from offsider.core.errors import Shutdown
from offsider.core.outcome import Malformed, Succeeded
from offsider.core.payload import decode, encode
from offsider.jobs.clients import Clients, client_for
from offsider.runtime.context import JobContext
from offsider.worker.processor import CapsuleParts, Processor
from offsider.worker.run.interrupt import Window
from offsider.worker.run.seats import Seats
from offsider.worker.settle.report import queued_seconds
from offsider.worker.unit_of_work import Run, UnitOfWork
from offsider.worker.work_state import WorkState

RAW = encode({"class": "J", "args": [], "jid": "a" * 24})


class Fetcher:
    """Returns the jobs given by the test, then is quiet."""

    def __init__(self, *units):
        self.units = deque(units)

    def retrieve(self):
        unit = self.units.popleft() if self.units else None
        if isinstance(unit, BaseException):
            raise unit
        return unit


class Executor:
    """Returns an outcome without running anything; ``steps`` records the order of calls."""

    def __init__(self, outcome, steps):
        self.outcome, self.steps = outcome, steps
        self.window = Window()
        self.meanwhile = lambda unit: None

    def run(self, unit, started_at):
        self.steps.append("run")
        self.meanwhile(unit)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        job = None if isinstance(self.outcome, Malformed) else JobContext(decode(unit.raw), unit.queue, unit.raw)
        return Run(job, self.outcome, started_at, 1.5, 0.25)


class Settlement:
    """Writes nothing."""

    def __init__(self, error, steps):
        self.error, self.steps = error, steps
        self.runs = []

    def settle(self, unit, run):
        self.steps.append("settle")
        self.runs.append(run)
        if self.error is not None:
            raise self.error


class NoRunner:
    """There are no coroutines here."""

    def __init__(self):
        self.asked = []

    def cancel(self, thread_id):
        self.asked.append(thread_id)
        return False


class Scene:
    """A processor among stand-ins."""

    def __init__(self, config, units, outcome, error):
        self.config = config
        self.steps: list[str] = []
        self.deaths = []
        self.work_state = WorkState()
        self.executor = Executor(outcome, self.steps)
        self.settlement = Settlement(error, self.steps)
        self.runner = NoRunner()
        clients = Clients.of(config)
        parts = CapsuleParts(
            clients, config.clock, Fetcher(*units), self.settlement, self.work_state, self.runner, Seats(1, 0)
        )
        self.processor = Processor(
            "processor-of-the-test",
            parts,
            self.executor,
            lambda processor, error: self.deaths.append((processor, error, threading.current_thread().name)),
        )

    def run(self):
        self.processor.start()
        assert self.processor.join(10)
        return self


@pytest.fixture
def scene(config):
    def scene(outcome, error=None, units=None):
        units = [UnitOfWork("default", RAW)] if units is None else units
        return Scene(config, units, outcome, error)

    return scene


def test_jobs_are_run_and_settled_one_after_the_other_until_the_fetcher_is_quiet(scene):
    ended = scene(Succeeded(), units=[UnitOfWork("default", RAW) for _ in range(3)]).run()

    assert ended.steps == ["run", "settle"] * 3
    assert not ended.processor.alive
    assert ended.processor.unit is None
    assert ended.deaths == []


def test_while_a_job_runs_the_worker_reports_it(scene, config):
    seen = []
    scene = scene(Succeeded())

    def look(unit):
        [work] = scene.work_state.running().values()
        seen.append((work.unit is unit, work.run_at, scene.processor.unit is unit))
        seen.append(decode(scene.processor.unsettled()[1])["interrupted_count"])
        seen.append(client_for())

    scene.executor.meanwhile = look
    scene.run()

    assert seen == [(True, config.clock.now(), True), 1, Clients.of(config).blocking]
    assert [run.started_at for run in scene.settlement.runs] == [config.clock.now()]
    assert scene.processor.unsettled() is None
    assert scene.work_state.busy == 0


@pytest.mark.parametrize("error", [RuntimeError("our own bug"), SystemExit(1), KeyboardInterrupt(), Shutdown()])
@pytest.mark.parametrize("where", ["fetch", "run", "settle"])
def test_an_error_in_the_steps_ends_the_thread_with_a_report(where, error, scene):
    unit = UnitOfWork("default", RAW)
    ended = scene(
        error if where == "run" else Succeeded(),
        error if where == "settle" else None,
        [error] if where == "fetch" else [unit, UnitOfWork("default", RAW)],
    ).run()

    assert ended.deaths == [(ended.processor, error, "processor-of-the-test")]
    assert ended.processor.unit is (None if where == "fetch" else unit)
    assert ended.work_state.busy == 0


def test_interrupting_asks_the_loop_first_and_then_the_thread(scene):
    scene = scene(Succeeded())
    scene.processor.interrupt()  # not started: no thread to reach
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
def test_the_queue_latency_of_a_job_is_measured(enqueued_at, queued):
    job = JobContext({"class": "J", "args": [], "enqueued_at": enqueued_at}, "default")

    assert queued_seconds(job, 1_005.0) == queued


def test_a_malformed_payload_has_no_queue_time():
    assert queued_seconds(None, 1_005.0) is None
    assert queued_seconds(JobContext({"class": "J", "args": []}, "default"), 1_005.0) is None
