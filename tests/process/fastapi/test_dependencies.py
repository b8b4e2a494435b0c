"""Dependencies in the jobs of a real worker: threads, event loops, time limits, stops.

Here and not in tests/redis, because coverage traces those, and a traced job cannot be interrupted on CPython 3.11.
"""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from fastapi import Depends

from offsider import Config, SoftTimeout, current_job, job
from offsider.config.default import set_default_config
from offsider.fastapi import dependencies, inject
from offsider.jobs import registry
from offsider.worker.embed import EmbeddedWorker


@pytest.fixture(scope="module", autouse=True)
def the_loop_runs():
    """Its thread lives until the process ends, so it starts before a test counts threads."""
    dependencies._running_loop()


@pytest.fixture
def config(embedded_url):
    config = Config()
    config.redis.url = embedded_url
    config.worker.timeout_seconds = 0.1
    before = set_default_config(config)
    with registry.isolated():
        yield config
    set_default_config(before)


class Session:
    """A dependency that notes its end."""

    def __init__(self):
        self.events, self.closed = [], threading.Event()

    def plain(self):
        try:
            yield current_job().args[0]
            self.events.append("commit")
        except BaseException as error:
            self.events.append(type(error).__name__)
            raise
        finally:
            self.closed.set()


@pytest.mark.interrupts
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_time_limit_reaches_the_job_and_its_session_is_closed(config, kind):
    session, raised = Session(), []

    if kind == "plain":

        @job(retry=False, soft_timeout=2)
        @inject
        def work(number: int, same: int = Depends(session.plain)) -> None:
            try:
                while True:
                    time.sleep(0.01)
            except SoftTimeout as error:
                raised.append(error)
                raise
    else:

        @job(retry=False, soft_timeout=2)
        @inject
        async def work(number: int, same: int = Depends(session.plain)) -> None:
            try:
                await asyncio.sleep(60)
            except SoftTimeout as error:
                raised.append(error)
                raise

    with EmbeddedWorker(config):
        work.enqueue(7)
        assert session.closed.wait(20)
    assert len(raised) == 1
    assert session.events == ["SoftTimeout"]


@pytest.mark.interrupts
def test_a_stop_interrupts_the_job_and_its_session_rolls_back(config):
    session, started = Session(), threading.Event()

    @job
    @inject
    def work(number: int, same: int = Depends(session.plain)) -> None:
        started.set()
        while True:
            time.sleep(0.01)

    with EmbeddedWorker(config):
        work.enqueue(7)
        assert started.wait(20)
    assert session.closed.wait(20)
    assert session.events == ["Shutdown"]
