"""Chunks in a worker: each member is admitted, counted and settled by itself."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from offsider import Call, JobCancelled, NoCurrentJob, Reschedule, Retry, Skip, current_job, job
from offsider.client import Client
from offsider.core.payload import decode, encode
from offsider.ext.batches import Batch, Batches
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.unique import Unique
from offsider.inspector import Controls
from offsider.worker.launcher import Launcher
from offsider.worker.run import chunks
from offsider.worker.run.executor import Executor
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("declared")

KINDS = pytest.mark.parametrize("kind", ["def", "async def"])


class Scene:
    """A worker, and a job `Index` whose chunks are noted in ``seen``."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.client = Client(config)
        self.seen: list[list[Any]] = []
        self.ended: list[Any] = []
        self.errors: list[BaseException] = []
        self.does: Callable[[list[Call[Any]]], object] = lambda calls: None
        self._started: list[Launcher] = []
        config.on("execution_finished", self.ended.append)
        config.error_handlers.append(lambda error, context: self.errors.append(error))

    def declare(self, kind: str = "def", **options: Any) -> Any:
        options = {"chunk": 5, "chunk_seconds": 0.3, **options}

        def index(calls: list[Call[int]]) -> None:
            self.seen.append([call.args[0] for call in calls])
            self.does(calls)

        async def aindex(calls: list[Call[int]]) -> None:
            self.seen.append([call.args[0] for call in calls])
            await asyncio.to_thread(self.does, calls)

        made: Any = job(name="Index", **options)
        return made(index if kind == "def" else aindex).via(self.client)

    def start(self) -> Launcher:
        launcher = Launcher(self.config)
        self._started.append(launcher)
        launcher.start()
        return launcher

    def stop(self) -> None:
        for launcher in self._started:
            launcher.stop()

    @property
    def outcomes(self) -> dict[int, str]:
        return {news.job.args[0]: news.outcome for news in self.ended}


@pytest.fixture
def scene(worker_config):
    worker_config.worker.concurrency = 2
    worker_config.worker.timeout_seconds = 5
    one = Scene(worker_config)
    yield one
    one.stop()


def idle(client) -> bool:
    return not [key for key in client.keys("offsider:working:*") if client.llen(key)] and not client.llen(
        "queue:default"
    )


@KINDS
def test_each_member_ends_as_it_was_asked_for(scene, raw_redis, kind):
    index = scene.declare(kind, chunk_seconds=60)

    def decide(calls):
        for call in calls:
            match call.args[0]:
                case 1:
                    call.fail(Skip("not needed"))
                case 2:
                    call.fail(Reschedule(60))
                case 3:
                    call.fail(Retry(after=30, reason="busy"))
        raise OSError("all others")

    scene.does = decide
    index.enqueue_many([(number,) for number in range(5)])
    scene.start()
    wait_for(lambda: len(scene.ended) == 5)
    assert [sorted(args) for args in scene.seen] == [[0, 1, 2, 3, 4]]
    assert scene.outcomes == {0: "failed", 1: "skipped", 2: "rescheduled", 3: "failed", 4: "failed"}
    retries = {
        decode(raw)["args"][0]: (decode(raw), score) for raw, score in raw_redis.zrange("retry", 0, -1, withscores=True)
    }
    assert {number: kept["error_message"] for number, (kept, _) in retries.items()} == {
        0: "all others",
        3: "retry after 30 s: busy",
        4: "all others",
    }
    assert retries[3][1] - time.time() == pytest.approx(30, abs=25)
    assert raw_redis.zcard("schedule") == 1
    wait_for(lambda: idle(raw_redis))


@KINDS
def test_the_wait_for_a_chunk_is_time_in_the_queue(scene, raw_redis, kind):
    index = scene.declare(kind, chunk=100)
    index.enqueue_many([(number,) for number in range(4)])
    scene.start()
    wait_for(lambda: len(scene.ended) == 4)
    for news in scene.ended:
        assert news.queued_seconds >= 0.3
        assert news.duration_seconds < 0.3
    wait_for(lambda: raw_redis.get("stat:processed") == b"4")


@KINDS
def test_the_busy_page_lists_the_members_that_run_and_not_those_that_wait(scene, raw_redis, kind):
    index = scene.declare(kind, chunk=3, chunk_seconds=600)
    release = threading.Event()
    scene.does = lambda calls: release.wait(20)
    index.enqueue_many([(number,) for number in range(5)])
    launcher = scene.start()
    state = launcher.work_state
    wait_for(lambda: len(scene.seen) == 1 and not raw_redis.llen("queue:default"))
    wait_for(lambda: state.busy == 3)
    assert sorted(decode(work.unit.raw)["args"][0] for work in state.running().values()) == sorted(scene.seen[0])
    release.set()
    wait_for(lambda: state.busy == 0 and len(scene.ended) == 3)


@KINDS
def test_the_function_has_no_current_job_and_pushes_with_the_client_of_its_worker(scene, raw_redis, kind):
    @job(name="Next")
    def follow() -> None: ...

    def push(calls):
        with pytest.raises(NoCurrentJob):
            current_job()
        follow.using(queue="other").enqueue()

    index = scene.declare(kind)
    scene.does = push
    index.enqueue(1)
    scene.start()
    wait_for(lambda: scene.outcomes == {1: "succeeded"}, what=str(scene.errors))
    assert raw_redis.llen("queue:other") == 1


def test_unfitting_arguments_fail_their_job_alone(scene, raw_redis):
    scene.declare()
    for number, args in enumerate(([1], ["a", "b"], [2])):
        raw_redis.lpush("queue:default", encode({"class": "Index", "args": args, "jid": f"{number:024x}"}))
    scene.start()
    wait_for(lambda: len(scene.ended) == 3)
    assert [sorted(args) for args in scene.seen] == [[1, 2]]
    (kept,) = raw_redis.zrange("retry", 0, -1)
    assert decode(kept)["error_class"].endswith("InvalidArguments")


def test_a_member_that_expires_while_it_waits_does_not_run(scene):
    index = scene.declare()
    index.using(expires_in=0.1).enqueue(1)
    index.enqueue(2)
    scene.start()
    wait_for(lambda: scene.outcomes == {2: "succeeded"})
    assert scene.seen == [[2]]


def test_a_class_that_is_dropped_while_its_members_wait_does_not_run(scene, raw_redis):
    index = scene.declare(chunk_seconds=3)
    index.enqueue_many([(1,), (2,)])
    scene.start()
    wait_for(lambda: not raw_redis.llen("queue:default"))
    Controls(scene.config).drop("Index")
    wait_for(lambda: raw_redis.zcard("offsider:quarantine") == 2 or idle(raw_redis))
    assert scene.seen == scene.ended == []


def test_a_limit_counts_members(scene, raw_redis):
    scene.config.use(ConcurrencyLimits())
    index = scene.declare(concurrency_limit=2)
    index.enqueue_many([(number,) for number in range(5)])
    scene.start()
    wait_for(lambda: len(scene.ended) == 5, 30)
    assert max(map(len, scene.seen)) <= 2
    assert sorted(number for args in scene.seen for number in args) == [0, 1, 2, 3, 4]


def test_locks_and_batches_of_members(scene, raw_redis):
    scene.config.use(Unique())
    scene.config.use(Batches())
    index = scene.declare(unique_for=60)
    scene.does = lambda calls: [call.fail(OSError("no")) for call in calls if call.args[0] == 2]
    with Batch(config=scene.config) as batch:
        jids = index.enqueue_many([(1,), (2,), (3,)])
    assert all(jids)
    assert not index.enqueue(3)  # its lock
    scene.start()
    wait_for(lambda: len(scene.ended) == 3)
    wait_for(lambda: (status := batch.status()).pending == 1 and status.failures == 1)
    assert index.enqueue(3)
    assert not index.enqueue(2)  # it is retried


@pytest.mark.parametrize("kind", [pytest.param("def", marks=pytest.mark.interrupts), "async def"])
def test_the_shortest_time_limit_of_all_members_applies(scene, raw_redis, kind):
    index = scene.declare(kind, soft_timeout=60)
    scene.does = lambda calls: [time.sleep(0.01) for _ in range(2000)]
    index.enqueue(1)
    index.using(soft_timeout=0.3).enqueue(2)
    scene.start()
    wait_for(lambda: scene.outcomes == {1: "failed", 2: "failed"})
    kept = [decode(raw)["error_message"] for raw in raw_redis.zrange("retry", 0, -1)]
    assert kept == ["the job exceeded its soft limit of 0.3 s (soft_timeout)"] * 2


@KINDS
def test_a_member_cannot_be_canceled_while_it_runs_because_the_others_would_fail(scene, kind):
    index = scene.declare(kind)
    release, results = threading.Event(), []
    scene.does = lambda calls: (
        results.append(calls[0].job.reach.aim(JobCancelled, "no", scene.stop)) or release.wait(10)
    )
    index.enqueue_many([(1,), (2,)])
    scene.start()
    wait_for(lambda: results == [False])
    release.set()
    wait_for(lambda: scene.outcomes == {1: "succeeded", 2: "succeeded"})


@pytest.mark.parametrize("kind,outcome", [("def", "succeeded"), ("async def", "failed")])
def test_thread_bound_middleware_refuses_coroutines(scene, kind, outcome):
    def bound(run):
        yield

    bound.thread_bound = True  # type: ignore[attr-defined]
    scene.config.server_middleware.add(bound)
    index = scene.declare(kind)
    index.enqueue_many([(1,), (2,)])
    scene.start()
    wait_for(lambda: scene.outcomes == {1: outcome, 2: outcome})


def test_middleware_surrounds_each_member_with_its_own_end(scene):
    seen = []

    def noting(run):
        try:
            result = yield
        except OSError as error:
            seen.append((run.args[0], current_job().args[0], str(error)))
            raise
        seen.append((run.args[0], current_job().args[0], result))

    scene.config.server_middleware.add(noting)
    index = scene.declare()
    scene.does = lambda calls: [call.fail(OSError("no")) for call in calls if call.args[0] == 2]
    index.enqueue_many([(1,), (2,), (3,)])
    scene.start()
    wait_for(lambda: len(scene.ended) == 3)
    assert sorted(seen) == [(1, 1, None), (2, 2, "no"), (3, 3, None)]


def test_jobs_of_an_isolated_capsule_fail_with_the_reason(scene):
    scene.config.worker.isolated = True
    index = scene.declare()
    index.enqueue(1)
    scene.start()
    wait_for(lambda: scene.outcomes == {1: "failed"})
    assert "Index runs in chunks, and jobs of the isolated capsule default cannot" in str(scene.errors[-1])


def test_an_error_of_an_error_handler_or_of_the_worker_loses_no_member(scene, raw_redis, monkeypatch):
    """A member whose start breaks the worker is requeued like the job of a dead thread, and the others run."""
    from offsider.worker.run.executor import Executor

    start, broken = Executor.start_member, []

    def breaks(self, unit, run):
        if run.job.args[0] == 2 and not broken:
            broken.append(unit)
            raise MemoryError
        start(self, unit, run)

    monkeypatch.setattr(Executor, "start_member", breaks)
    index = scene.declare()
    index.enqueue_many([(1,), (2,), (3,)])
    scene.start()
    wait_for(lambda: len(scene.ended) == 3)
    assert sorted(number for args in scene.seen for number in args) == [1, 2, 3]
    assert [news.job.interrupted_count for news in scene.ended if news.job.args[0] == 2] == [1]


def test_members_go_back_when_their_thread_dies(scene, monkeypatch):
    index = scene.declare()
    index.enqueue_many([(1,), (2,)])
    fails = [MemoryError()]
    perform = Executor.perform_chunk

    def failing(self, members):
        if fails:
            raise fails.pop()
        return perform(self, members)

    monkeypatch.setattr(Executor, "perform_chunk", failing)
    scene.start()
    wait_for(lambda: scene.outcomes == {1: "succeeded", 2: "succeeded"})
    assert [type(error) for error in scene.errors].count(MemoryError) == 3


def test_middleware_is_left_in_the_reverse_order(scene, raw_redis):
    stack, wrong = [], []

    def push_and_pop(job):
        stack.append(job.jid)
        try:
            yield
        finally:
            wrong.extend({stack.pop()} - {job.jid})

    scene.config.server_middleware.add(push_and_pop)
    index = scene.declare()
    index.enqueue_many([(number,) for number in range(5)])
    scene.start()
    wait_for(lambda: len(scene.ended) == 5)
    assert (stack, wrong) == ([], [])


def test_each_member_knows_the_time_that_is_left(scene):
    index = scene.declare(soft_timeout=60)
    left = []
    scene.does = lambda calls: left.extend(call.job.time_left_seconds for call in calls)
    index.enqueue_many([(1,), (2,)])
    scene.start()
    wait_for(lambda: len(left) == 2)
    assert all(50 < seconds <= 60 for seconds in left)


def test_threads_that_have_ended_are_forgotten(scene, monkeypatch):
    monkeypatch.setattr(chunks, "IDLE_SECONDS", 0.01)
    index = scene.declare(chunk_seconds=0.01)
    launcher = scene.start()
    (manager,) = launcher.parts.managers

    def is_idle(number):
        return number in scene.outcomes and sum(each.alive for each in manager._processors) == 2

    for number in range(5):
        index.enqueue(number)
        wait_for(partial(is_idle, number))
    assert len(manager._processors) <= 4
