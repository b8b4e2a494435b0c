"""Waiting for results: without polling, for many callers, and across a lost connection."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time

import pytest

from offsider import Config, ResultTimeout, job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.ext.results import Results
from offsider.ext.results.subscriber import Subscriber
from offsider.jobs import registry
from offsider.testing.running_worker import RunningWorker
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


def test_a_thousand_waiters_send_nothing_while_they_wait(config, raw_redis, arun):
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
            while sum(map(len, subscriber._channels.values())) < 1000 or await about(jid, raw_redis, monitor, 0.2):
                waiters += [asyncio.create_task(jid.aresult(timeout=60)) for _ in range(min(90, 990 - len(waiters)))]
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

    sent, values, channels = arun(wait())
    assert sent == []
    assert len({*values}) == 1
    assert channels <= 1  # that of the worker's cancellations


def test_a_result_arrives_within_milliseconds(config):
    with RunningWorker(config):
        quick.enqueue().result(timeout=5)
        delays = []
        for _ in range(30):
            ended_at = quick.enqueue().result(timeout=5)
            delays.append(time.time() - ended_at)
    assert statistics.median(delays) < 0.2  # 2 ms on an idle machine; polling every second would take 0.5 s


def test_a_waiter_survives_a_lost_connection(config, raw_redis):
    found = []
    with RunningWorker(config):
        jid = gated.enqueue()
        waiter = threading.Thread(target=lambda: found.append(jid.result(timeout=10)))
        waiter.start()
        wait_for(lambda: raw_redis.pubsub_numsub(f"offsider:results:job:{jid}")[0][1] == 1)
        raw_redis.client_kill_filter(_type="pubsub")
        gate.set()
        waiter.join(10)
    assert len(found) == 1


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


def test_a_connection_that_is_lost_after_the_last_waiter_is_not_reported(config, raw_redis):
    reports = []
    config.error_handlers[:] = [lambda error, _: reports.append(error)]
    subscriber, subscribed = Subscriber.of(Installation.of(config)), threading.Event()

    def wake(_):
        subscribed.set()

    subscriber.watch("channel", wake)
    assert subscribed.wait(10)
    subscriber.unwatch("channel", wake)
    wait_for(lambda: all(client["sub"] == "0" for client in raw_redis.client_list()))
    raw_redis.client_kill_filter(_type="normal", skipme=True)
    wait_for(lambda: not any(t.name == "offsider-subscriber" for t in threading.enumerate()), what="the thread's end")
    assert reports == []


def test_a_user_without_the_channels_is_reported_once_and_waits_in_vain(config, raw_redis):
    raw_redis.acl_setuser("poor", enabled=True, nopass=True, keys="*", commands=["+@all"], reset_channels=True)
    poor = Config()
    poor.redis.url, poor.redis.username, poor.redis.password = config.redis.url, "poor", "any"
    poor.use(Results())
    reported = []
    poor.error_handlers.append(lambda error, context: reported.append(error))
    jid = gated.via(Client(poor)).enqueue()
    with pytest.raises(ResultTimeout):
        jid.result(timeout=0.5)
    raw_redis.acl_deluser("poor")
    Installation.of(poor).close()
    assert len(reported) == 1
    assert reported[0].code == "NOPERM"
