"""The processors of a capsule: kept alive, quieted, waited for, and their remaining jobs requeued."""

from __future__ import annotations

import asyncio
import queue
import threading
import time

import pytest

from offsider import job
from offsider.config.installation import Installation
from offsider.core.errors import HardTimeout, RedisUnavailable
from offsider.core.payload import encode
from offsider.worker.disposition import Lost, RequeuedFirst
from offsider.worker.fetch.fetcher import FetcherContext, Settled
from offsider.worker.manager import Manager
from offsider.worker.parts import WorkerParts
from offsider.worker.run.time_limits import TimeLimits
from offsider.worker.settle.report import Reporter
from offsider.worker.unit_of_work import UnitOfWork
from offsider.worker.work_state import WorkState
from tests.waiting import wait_for


def unit(name, **fields):
    return UnitOfWork("default", encode({"class": name, "args": [], "jid": "a" * 24, "retry": False, **fields}))


class Fetcher:
    """Returns the queued jobs and records the requeued ones. A queued error is raised by `retrieve`."""

    unstarted = 0

    def __init__(self):
        self.report = list
        self.abandoned = threading.Event()
        self.payloads = []
        self.waiting = queue.Queue()
        self.acknowledged, self.requeued, self.given_back = [], [], []
        self.failure = None
        self.retrievers = set()
        self._quiet = threading.Event()

    def retrieve(self):
        self.retrievers.add(threading.current_thread().name)
        while not self._quiet.is_set():
            try:
                found = self.waiting.get(timeout=0.005)
            except queue.Empty:
                continue
            if isinstance(found, BaseException):
                raise found
            return found
        return None

    def wait_written(self, deadline):
        return True

    def settle(self, unit, disposition):
        if isinstance(disposition, Lost):
            self.report([Settled(unit, disposition, lost=True)])
            return
        unit.settled = True
        (self.requeued if isinstance(disposition, RequeuedFirst) else self.acknowledged).append(unit)
        self.report([Settled(unit, disposition)])

    def give_back(self, units):
        if self.failure:
            raise self.failure
        for unit, payload in units:
            (self.given_back if self.abandoned.is_set() else self.requeued).append(unit)
            self.payloads.append(payload)
            unit.settled = True

    def owns(self, unit):
        return True

    def quiet(self):
        self._quiet.set()

    def close(self):
        self.closed = True


def make_manager(config, capsule, fetcher, **parts):
    """A manager whose fetcher reports to it, as the launcher makes it."""
    work_state = WorkState()
    reporter = Reporter(config, work_state)
    context = FetcherContext(config, capsule, Installation.of(config).redis, None, reporter.settled)
    fetcher.report, fetcher.abandoned = context.report, context.abandoned
    return Manager(WorkerParts(config, work_state, reporter, lambda: False, **parts), context, fetcher)


@pytest.fixture
def fetcher():
    return Fetcher()


@pytest.fixture
def make(config):
    """make(fetcher, concurrency=2) -> the manager of the default capsule, brought to its end after the test."""
    made = []

    def make(fetcher, concurrency=2, async_concurrency=100):
        capsule = config.capsule("default", concurrency=concurrency)
        capsule.settings.assign("async_concurrency", async_concurrency)
        manager = make_manager(config, capsule, fetcher)
        made.append(manager)
        return manager

    yield make
    for manager in made:
        manager.quiet()
        assert manager.wait(time.monotonic() + 10)
        manager.close()


def held_job(kind="def"):
    """A job that runs until the test releases it: a semaphore counts its runs, and an event ends them."""
    entered, go_on = threading.Semaphore(0), threading.Event()

    def held():
        entered.release()
        assert go_on.wait(60)

    async def blocks():
        held()

    job(name="Held")(held if kind == "def" else blocks)
    return entered, go_on


def threads_of(manager):
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(f"offsider-{manager.name}-")]


def test_the_capsule_limits_concurrent_jobs(make, fetcher):
    entered, go_on = held_job()
    manager = make(fetcher, concurrency=3)
    units = [unit("Held") for _ in range(4)]
    for each in units:
        fetcher.waiting.put(each)
    manager.start()

    assert all(entered.acquire(timeout=10) for _ in range(3))
    assert fetcher.waiting.qsize() == 1
    assert not entered.acquire(timeout=0.05)
    assert len(threads_of(manager)) == 3
    go_on.set()
    wait_for(lambda: len(fetcher.acknowledged) == 4)


@pytest.mark.parametrize("error", [RuntimeError("our own bug"), SystemExit(1), KeyboardInterrupt()])
def test_a_dead_processor_is_replaced_and_the_others_continue(error, make, fetcher, reports):
    ran = threading.Semaphore(0)

    @job(name="Fine")
    def fine():
        ran.release()

    manager = make(fetcher, concurrency=1)
    manager.start()
    fetcher.waiting.put(error)
    fetcher.waiting.put(unit("Fine"))

    assert ran.acquire(timeout=10)
    assert reports == [(error, {"context": "a processor of capsule default died"})]
    wait_for(lambda: threads_of(manager) == ["offsider-default-2"])


def test_a_dead_processor_does_not_requeue_a_settled_job(make, fetcher, monkeypatch):
    """The thread dies after that: a second copy would run the job again."""

    @job(name="Fine")
    def fine(): ...

    manager = make(fetcher, concurrency=1)

    def settle(unit, run):
        unit.settled = True
        raise SystemExit(1)

    monkeypatch.setattr(manager._settlement, "settle", settle)
    fetcher.waiting.put(unit("Fine"))
    manager.start()

    wait_for(lambda: "offsider-default-2" in fetcher.retrievers)
    wait_for(lambda: threads_of(manager) == ["offsider-default-2"])
    assert fetcher.requeued == []


def test_the_job_of_a_dead_processor_is_requeued_once_redis_is_back(make, fetcher, reports, monkeypatch):
    """Meanwhile the processor is replaced, and the outage is reported once."""
    monkeypatch.setattr("offsider.runtime.outage.RETRY_SECONDS", 0.001)

    @job(name="Fine")
    def fine(): ...

    manager = make(fetcher, concurrency=1)

    def settle(unit, run):
        raise RuntimeError("our own bug")

    monkeypatch.setattr(manager._settlement, "settle", settle)
    fetcher.failure = RedisUnavailable("gone")
    only = unit("Fine")
    fetcher.waiting.put(only)
    manager.start()

    wait_for(lambda: "offsider-default-2" in fetcher.retrievers)
    wait_for(lambda: len(reports) == 2)
    assert [str(error) for error, _ in reports] == ["our own bug", "gone"]
    assert fetcher.requeued == []
    fetcher.failure = None
    wait_for(lambda: fetcher.requeued == [only])
    assert len(reports) == 2


def test_a_quiet_manager_finishes_its_running_jobs_and_fetches_no_more(make, fetcher):
    entered, go_on = held_job()
    manager = make(fetcher, concurrency=2)
    running, later = unit("Held"), unit("Held")
    fetcher.waiting.put(running)
    manager.start()
    assert entered.acquire(timeout=10)

    manager.quiet()
    manager.quiet()
    wait_for(lambda: len(threads_of(manager)) == 1)
    fetcher.waiting.put(later)
    assert not manager.wait(time.monotonic() + 0.01)
    go_on.set()

    assert manager.wait(time.monotonic() + 10)
    assert fetcher.acknowledged == [running]
    assert fetcher.waiting.get_nowait() is later


def test_jobs_that_still_run_are_requeued_once(make, fetcher, caplog):
    entered, go_on = held_job()
    manager = make(fetcher, concurrency=3)
    running = [unit("Held"), unit("Held")]
    for each in running:
        fetcher.waiting.put(each)
    manager.start()
    assert entered.acquire(timeout=10)
    assert entered.acquire(timeout=10)
    manager.quiet()

    assert manager.give_back() == 2
    assert manager.give_back() == 0

    assert sorted(map(id, fetcher.given_back)) == sorted(map(id, running))
    assert "requeued 2 jobs that did not finish in time" in caplog.text
    assert caplog.text.count("requeued Held JID-") == 2
    assert [payload.endswith(b'"interrupted_count":1}') for payload in fetcher.payloads] == [True, True]
    go_on.set()


def test_a_failed_requeue_is_reported_and_leaves_the_job_in_its_list(make, fetcher, reports):
    entered, go_on = held_job()
    manager = make(fetcher, concurrency=1)
    fetcher.waiting.put(unit("Held"))
    manager.start()
    assert entered.acquire(timeout=10)
    manager.quiet()
    fetcher.failure = RedisUnavailable("gone")

    assert manager.give_back() == 0

    assert [context["context"] for _, context in reports] == ["requeueing unfinished jobs at shutdown"]
    go_on.set()


def sleeping_job():
    """A coroutine that never ends; a semaphore counts its runs."""
    entered = threading.Semaphore(0)

    @job(name="Sleeps")
    async def sleeps():
        entered.release()
        await asyncio.Event().wait()

    return entered


def test_coroutines_keep_no_thread_and_a_stop_requeues_them(make, fetcher, config):
    """The last one has no seat: it did not start, and its thread wakes at once."""
    reported = []
    config.on("execution_finished", reported.append)
    entered = sleeping_job()
    manager = make(fetcher, concurrency=2, async_concurrency=5)
    units = [unit("Sleeps") for _ in range(6)]
    for each in units:
        fetcher.waiting.put(each)
    manager.start()
    assert all(entered.acquire(timeout=10) for _ in range(5))
    wait_for(lambda: manager.async_runner._waiting)
    wait_for(lambda: manager._work_state.busy == 5)
    shown = manager._work_state.running()
    assert len({tid.partition("-")[0] for tid in shown if "-" in tid}) == 1
    assert (manager.coroutines, len(shown)) == (5, 5)

    manager.quiet()
    wait_for(lambda: len(fetcher.requeued) == 1)
    wait_for(lambda: manager._work_state.busy == 5)
    assert not manager.wait(time.monotonic() + 0.01)
    manager.interrupt()
    assert manager.wait(time.monotonic() + 10)
    assert manager.give_back() == manager._work_state.busy == manager.coroutines == 0
    assert len(fetcher.given_back) == 5  # together
    assert {id(each) for each in fetcher.requeued + fetcher.given_back} == {id(each) for each in units}
    assert [news.outcome for news in reported] == ["interrupted"] * 5
    assert manager._work_state.runs.ended.requeued == 6


def test_a_coroutine_that_does_not_end_is_requeued_by_the_last_step_of_a_stop(make, fetcher):
    entered, go_on = held_job("async def")
    manager = make(fetcher, concurrency=1)
    only = unit("Held")
    fetcher.waiting.put(only)
    manager.start()
    assert entered.acquire(timeout=10)
    wait_for(lambda: manager.coroutines == 1)
    manager.quiet()
    manager.interrupt()
    assert manager.give_back() == 1
    assert manager.give_back() == 0
    assert fetcher.given_back == [only]
    assert fetcher.payloads[0].endswith(b'"interrupted_count":1}')
    go_on.set()


def test_a_coroutine_that_cannot_be_settled_is_requeued_and_leaves_its_seat(make, fetcher, reports, monkeypatch):
    ran = threading.Semaphore(0)

    @job(name="Fine")
    async def fine():
        ran.release()

    manager = make(fetcher, concurrency=1, async_concurrency=1)
    settle = manager._settlement.settle
    failures = [SystemExit(1)]

    def fails_once(unit, run):
        if failures:
            raise failures.pop()
        settle(unit, run)

    monkeypatch.setattr(manager._settlement, "settle", fails_once)
    first, second = unit("Fine"), unit("Fine")
    fetcher.waiting.put(first)
    fetcher.waiting.put(second)
    manager.start()
    wait_for(lambda: fetcher.acknowledged == [second])
    assert fetcher.requeued == [first]
    assert [context for _, context in reports] == [{"context": "settling a coroutine of capsule default"}]


def test_a_task_in_the_context_of_its_ended_job_does_not_repeat_the_job(make, fetcher, monkeypatch):
    @job(name="Fine")
    async def fine(): ...

    manager = make(fetcher)
    start, left = manager.async_runner.start, threading.Event()

    def start_beside_a_task(unit, coroutine, context, finish):
        def finish_beside_it():
            entered = threading.Event()
            threading.Thread(target=context.run, args=(lambda: entered.set() or left.wait(10),)).start()
            assert entered.wait(10)
            threading.Timer(0.05, left.set).start()
            return finish()

        start(unit, coroutine, context, finish_beside_it)

    monkeypatch.setattr(manager.async_runner, "start", start_beside_a_task)
    fetcher.waiting.put(unit("Fine"))
    manager.start()
    wait_for(lambda: fetcher.acknowledged or fetcher.requeued)
    assert fetcher.requeued == []


@pytest.mark.parametrize("kind", [LookupError, SystemExit])
def test_broken_death_and_error_handlers_do_no_harm(kind, make, fetcher, config, reports):
    reported = []

    def broken(*_):
        raise kind("broken itself")

    @job(name="Dies")
    def dies():
        raise ValueError("boom")

    config.error_handlers.insert(0, broken)
    config.death_handlers.append(broken)
    config.death_handlers.append(lambda payload, error: reported.append((payload["class"], str(error))))
    fetcher.waiting.put(unit("Dies"))
    fetcher.waiting.put(unit("Dies"))
    make(fetcher, concurrency=1).start()

    wait_for(lambda: len(reported) == 2)
    wait_for(lambda: len(reports) == 4)
    assert reported == [("Dies", "boom")] * 2
    assert {context["context"] for error, context in reports if isinstance(error, kind)} == {"calling a death handler"}
    assert fetcher.retrievers == {"offsider-default-1"}


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_job_that_runs_past_its_hard_limit_fails_while_it_runs_and_ends_the_worker(
    config, fetcher, monkeypatch, kind
):
    monkeypatch.setattr("offsider.worker.run.time_limits.GRACE_SECONDS", 0.02)
    entered, go_on = held_job(kind)
    reported, reasons, errors = [], [], []
    config.on("execution_finished", reported.append)
    config.error_handlers.append(lambda error, context: errors.append(error))
    ahead = [0.0]
    time_limits = TimeLimits(config, lambda: time.monotonic() + ahead[0])
    capsule = config.capsule("default", concurrency=1)
    manager = make_manager(config, capsule, fetcher, time_limits=time_limits, give_up=reasons.append)
    late = unit("Held", hard_timeout=60)
    fetcher.waiting.put(late)
    manager.start()
    assert entered.acquire(timeout=10)
    ahead[0] = 60.0
    time_limits.wake()
    wait_for(lambda: reasons == ["a job of capsule default still runs after its hard time limit"])
    assert [each.raw for each in fetcher.acknowledged] == [late.raw]
    assert [type(error) for error in errors] == [HardTimeout]
    assert [(news.outcome, type(news.error)) for news in reported] == [("died", HardTimeout)]
    assert late.settled
    manager.quiet()
    assert manager.wait(time.monotonic() + 5)  # no wait for an abandoned thread or coroutine
    assert manager.give_back() == 0

    go_on.set()
    wait_for(lambda: manager.coroutines == 0)
    manager.close()
    wait_for(lambda: threads_of(manager) == [])
    assert len(fetcher.acknowledged) == len(reported) == 1
    time_limits.stop()
