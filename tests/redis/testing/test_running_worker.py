from __future__ import annotations

import threading

import pytest

from offsider import Client, Config, Discard, UnknownJob, job
from offsider.config.default import set_default_config
from offsider.jobs import registry
from offsider.testing import RunningWorker


@pytest.fixture
def config(embedded_url):
    config = Config()
    config.redis.url = embedded_url
    previous = set_default_config(config)
    with registry.isolated():
        yield config
    set_default_config(previous)


def test_it_runs_jobs_of_every_declared_queue_until_nothing_is_left(config):
    ran = []

    @job(name="parent", queue="low")
    def parent(generations: int) -> None:
        ran.append(generations)
        if generations:
            parent.enqueue(generations - 1)

    @job(name="slow")
    async def slow() -> None:
        ran.append("slow")

    with RunningWorker(config) as worker:
        slow.enqueue()
        parent.enqueue(5)
        worker.wait()
        assert sorted(map(str, ran)) == ["0", "1", "2", "3", "4", "5", "slow"]
        assert worker.errors == []


def test_it_serves_the_configured_queues_if_any(config):
    @job(name="elsewhere", queue="low")
    def elsewhere() -> None: ...

    config.worker.queues = ["high"]
    with RunningWorker(config) as worker:
        elsewhere.enqueue()
        with pytest.raises(
            AssertionError,
            match=r"after 0.1 s there are still jobs: 1 in queue low, which this worker does not serve$",
        ):
            worker.wait(0.1)


def test_it_records_the_errors_of_jobs(config):
    @job(name="flaky")
    def flaky() -> None:
        raise RuntimeError("no luck")

    @job(name="modest")
    def modest() -> None:
        raise Discard

    with RunningWorker(config) as worker:
        flaky.enqueue()
        modest.enqueue()
        worker.wait()
        assert [str(error) for error in worker.errors] == ["no luck"]
        Client(config).push({"class": "Nobody", "args": []})
        worker.wait()
    # A stopped worker has reported everything, including errors before middleware was reached.
    assert [type(error) for error in worker.errors] == [RuntimeError, UnknownJob]


def test_a_job_still_running_is_reported(config):
    begun, go_on = threading.Event(), threading.Event()

    @job(name="long")
    def long() -> None:
        begun.set()
        go_on.wait(10)

    with RunningWorker(config) as worker:
        long.enqueue()
        assert begun.wait(10)
        with pytest.raises(AssertionError, match=r"there are still jobs: 1 running$"):
            worker.wait(0.05)
        go_on.set()
        worker.wait()
