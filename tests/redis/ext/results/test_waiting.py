"""Waiting for results: without polling, for many callers, and across a lost connection."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from offsider import Config, ResultTimeout, job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.ext.results import Results
from offsider.ext.results.reader import Reader
from offsider.ext.results.subscriber import Subscriber
from offsider.jobs import registry
from offsider.runtime.loop_threads import LoopThreads
from offsider.runtime.propagation import context, stamps
from offsider.testing.running_worker import RunningWorker
from tests.faults import FaultProxy
from tests.waiting import wait_for

gate = threading.Event()


# Not in the registry of other tests; a fixture of conftest.py registers them.
with registry.isolated():

    @job(name="gated", keep_result=60)
    def gated():
        gate.wait(60)
        return time.time()

    @job(name="quick", keep_result=60)
    def quick():
        time.sleep(0.003)
        return time.time()


@pytest.fixture(autouse=True)
def _closed():
    gate.clear()


async def about(jid, raw_redis, monitor, seconds):
    """Commands about a job within a time."""
    await asyncio.sleep(seconds)
    raw_redis.echo("end of the time")
    found = []
    while "end of the time" not in (command := monitor.next_command()["command"]):
        if jid in command:
            found.append(command)
    return found


def test_waiters_send_nothing_while_they_wait(config, raw_redis):
    """Without a worker, so that every command is one of the waiters."""
    jid = gated.enqueue()

    async def wait():
        waiters = []
        threads = [threading.Thread(target=jid.result, kwargs={"timeout": 60}) for _ in range(10)]
        for thread in threads:
            thread.start()
        subscriber = Subscriber.of(Installation.of(config))
        with raw_redis.monitor() as monitor:
            # A few at a time: each reads the state once, through five connections.
            while sum(map(len, subscriber._channels.values())) < 200 or await about(jid, raw_redis, monitor, 0.2):
                waiters += [asyncio.create_task(jid.aresult(timeout=60)) for _ in range(min(90, 190 - len(waiters)))]
                await about(jid, raw_redis, monitor, 0.05)
                assert not any(waiter.done() for waiter in waiters)
            for _ in range(10):  # on a busy machine the last ones subscribe late, and read the state once more
                sent = await about(jid, raw_redis, monitor, 1)
                if not sent:
                    break
        gate.set()
        worker = await asyncio.to_thread(RunningWorker(config).start)
        values = await asyncio.gather(*waiters)
        for thread in threads:
            await asyncio.to_thread(thread.join, 5)
        await asyncio.to_thread(worker.stop)
        return sent, values, subscriber.channels

    sent, values, channels = asyncio.run(wait())
    assert sent == []
    assert len({*values}) == 1
    assert channels <= 1  # that of the worker's cancellations


def test_an_end_that_was_published_during_the_outage_is_not_missed(config, raw_redis):
    found = []
    jid = gated.enqueue()
    waiter = threading.Thread(target=lambda: found.append(jid.result(timeout=10)))
    waiter.start()
    key = f"offsider:results:job:{jid}"
    wait_for(lambda: raw_redis.pubsub_numsub(key)[0][1] == 1)
    raw_redis.hset(key, mapping={"state": "succeeded", "ended": "1", "result": "5"})  # nothing is published
    raw_redis.client_kill_filter(_type="pubsub")
    waiter.join(10)
    assert found == [5]


def test_the_connection_is_closed_after_the_last_waiter(config, raw_redis):
    jid = gated.enqueue()
    with pytest.raises(TimeoutError):
        jid.result(timeout=0.05)
    wait_for(lambda: all(client["sub"] == "0" for client in raw_redis.client_list()))
    with pytest.raises(TimeoutError):
        jid.result(timeout=0.05)


def test_a_user_without_the_channels_is_reported_once_and_waits_in_vain(config, raw_redis):
    raw_redis.acl_setuser("poor", enabled=True, nopass=True, keys="*", commands=["+@all"], reset_channels=True)
    poor = Config()
    poor.redis.url, poor.redis.username, poor.redis.password = config.redis.url, "poor", "any"
    poor.use(Results())
    reported = []
    poor.error_handlers.append(lambda error, context: reported.append(error))
    jid = gated.via(Client(poor)).enqueue()

    def waits_in_vain():
        with pytest.raises(ResultTimeout):
            jid.result(timeout=0.5)
        return reported

    wait_for(waits_in_vain)
    raw_redis.acl_deluser("poor")
    Installation.of(poor).close()
    assert len(reported) == 1
    assert reported[0].code == "NOPERM"


@pytest.fixture
def proxy(config):
    with FaultProxy(config.redis.url) as proxy:
        config.redis.url = proxy.url
        config.redis.socket_timeout_seconds = 60
        yield proxy


def test_a_full_default_executor_delays_no_read(config):
    """It looks up host names, and runs the `asyncio.to_thread` calls of the application."""
    jid, may_end = gated.enqueue(), threading.Event()

    async def read():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        busy = loop.run_in_executor(None, may_end.wait, 60)
        try:
            async with asyncio.timeout(30):
                info = await jid.ainfo()
                with pytest.raises(ResultTimeout, match="it is queued"):
                    await jid.aresult(timeout=0.1)
                return info.state, await jid.acancel()
        finally:
            may_end.set()
            await busy

    assert asyncio.run(read()) == ("queued", True)


@pytest.mark.parametrize("waiters", [1, 8])
def test_a_time_limit_counts_while_the_server_does_not_answer(proxy, waiters):
    jid = gated.enqueue()
    proxy.black_hole()

    async def wait():
        return await asyncio.gather(*(jid.aresult(timeout=1) for _ in range(waiters)), return_exceptions=True)

    started = time.monotonic()
    errors = asyncio.run(wait())
    assert 0.9 < time.monotonic() - started < 15, "neither the reads nor the end of the loop wait for a reply"
    assert {type(error) for error in errors} == {ResultTimeout}
    assert "was not read within 1 s: check that its Redis server replies" in str(errors[0])


def test_a_read_of_a_cancelled_caller_never_begins_and_one_that_has_begun_delays_no_exit():
    threads, may_end, read = LoopThreads(2), threading.Event(), []

    async def cancelled():
        busy = [asyncio.create_task(threads.run(partial(may_end.wait, 60))) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.to_thread(wait_for, lambda: not threads._calls)
        late = asyncio.create_task(threads.run(partial(read.append, "late")))
        await asyncio.sleep(0)
        for task in (*busy, late):
            task.cancel()
        await asyncio.gather(*busy, late, return_exceptions=True)

    started = time.monotonic()
    asyncio.run(cancelled())
    assert time.monotonic() - started < 30
    may_end.set()
    wait_for(lambda: threads._running == 0)
    assert read == []
    assert asyncio.run(threads.run(lambda: 5)) == 5
    with pytest.raises(ZeroDivisionError):
        asyncio.run(threads.run(lambda: 1 / 0))
    with context(user="ann"):
        assert asyncio.run(threads.run(stamps))["meta.user"] == "ann"


def test_without_a_further_thread_calls_wait_for_those_that_run_and_without_any_they_block_the_loop(monkeypatch):
    threads = LoopThreads(2)

    def refuse(self):
        raise RuntimeError("can't start new thread")

    async def run():
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            assert await threads.run(threading.get_ident) == threading.get_ident()
        first = asyncio.create_task(threads.run(partial(time.sleep, 0.05)))
        await asyncio.sleep(0)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            assert await threads.run(lambda: 2) == 2
        await first

    asyncio.run(run())


def test_a_forked_child_reads_while_all_threads_of_its_parent_are_busy(config):
    jid, may_end = gated.enqueue(), threading.Event()
    threads = Reader.of(Installation.of(config))._threads

    async def fork():
        busy = [asyncio.create_task(threads.run(partial(may_end.wait, 60))) for _ in range(threads.size)]
        await asyncio.sleep(0)
        child = os.fork()
        if child == 0:
            found = []
            reader = threading.Thread(target=lambda: found.append(asyncio.run(jid.ainfo()).state == "queued"))
            reader.start()
            reader.join(30)
            os._exit(0 if found == [True] else 1)
        may_end.set()
        await asyncio.gather(*busy)
        return child

    child = asyncio.run(fork())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
