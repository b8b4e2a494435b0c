"""Pushes of event loops are stored in groups: each coroutine gets the outcome of its own push."""

import asyncio
import gc
import os
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from redis.exceptions import ReadOnlyError

from offsider import job
from offsider.client import Client
from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.jobs import registry
from offsider.storage.redis import NEARLY_SECONDS
from tests.faults import FaultProxy
from tests.waiting import wait_for

ITEM = {"class": "X", "args": []}
MANY = 12_000

with registry.isolated():

    @job(name="grouped")
    def grouped(number: int) -> None: ...


@pytest.fixture
def client(config):
    client = Client(config)
    yield client
    client.close()


@pytest.fixture
def held(client, monkeypatch):
    """Holds each request before it is sent, until it is set."""
    may_go, send = asyncio.Event(), client._asend

    async def wait(groups):
        await may_go.wait()
        return await send(groups)

    monkeypatch.setattr(client, "_asend", wait)
    return may_go


def pushes(client, numbers):
    return [grouped.via(client).aenqueue(number) for number in numbers]


def numbers_in(raw_redis, tag, queue="default"):
    return raw_redis.llen(f"{tag}queue:{queue}")


def test_many_pushes_are_all_stored_in_fewer_round_trips(client, raw_redis, tag):
    async def push():
        return await asyncio.gather(*pushes(client, range(MANY)))

    before = raw_redis.info("commandstats").get("cmdstat_lpush", {"calls": 0})["calls"]
    jids = asyncio.run(push())
    calls = raw_redis.info("commandstats")["cmdstat_lpush"]["calls"] - before
    assert len({*jids}) == numbers_in(raw_redis, tag) == MANY
    assert calls < MANY / 4


def test_each_push_gets_its_own_error(client, raw_redis, tag):
    raw_redis.set(f"{tag}queue:wrong", "a string")

    async def push():
        await client.apush({"class": "X", "args": []})
        bad = [client.apush({"class": "X", "args": [], "queue": "wrong"}) for _ in range(3)]
        good = [client.apush({"class": "X", "args": [number]}) for number in range(4)]
        many = client.apush_bulk({"class": "X", "args": [[1], [2]]})
        later = client.apush({"class": "X", "args": [], "at": 60})
        return await asyncio.gather(*bad, *good, many, later, return_exceptions=True)

    outcomes = asyncio.run(push())
    assert [isinstance(outcome, RedisRefused) for outcome in outcomes] == [*[True] * 3, *[False] * 6]
    assert (outcomes[1] is outcomes[2], outcomes[1].code) == (False, outcomes[2].code)
    assert numbers_in(raw_redis, tag) == 7
    assert raw_redis.zcard(f"{tag}schedule") == 1


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_push_cancelled_before_it_is_sent_is_not_stored(place, client, held, raw_redis, tag):
    async def push():
        tasks = [asyncio.ensure_future(push) for push in pushes(client, range(4))]
        await asyncio.sleep(0)
        tasks[place].cancel()
        await asyncio.sleep(0)
        held.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = asyncio.run(push())
    assert [isinstance(outcome, asyncio.CancelledError) for outcome in outcomes].index(True) == place
    assert numbers_in(raw_redis, tag) == 3


def test_a_push_cancelled_after_it_was_sent_does_not_disturb_its_group(client, monkeypatch, raw_redis, tag):
    async def push():
        sent, may_go, send = asyncio.Event(), asyncio.Event(), client._asend

        async def hold(groups):
            outcomes = await send(groups)
            if len(groups[0]) > 1:
                sent.set()
                await may_go.wait()
            return outcomes

        monkeypatch.setattr(client, "_asend", hold)
        tasks = [asyncio.ensure_future(push) for push in pushes(client, range(3))]
        await sent.wait()
        tasks[1].cancel()
        await asyncio.sleep(0)
        may_go.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert [isinstance(outcome, str) for outcome in asyncio.run(push())] == [True, False, True]
    assert numbers_in(raw_redis, tag) == 3


def test_a_push_cancelled_while_its_reply_is_awaited_disturbs_no_other(config, raw_redis, tag):
    with FaultProxy(config.redis.url) as proxy:
        config.redis.url = proxy.url
        config.redis.client_pool_size = 1
        client = Client(config)

        async def push():
            await pushes(client, [0])[0]
            proxy.hold()
            sent = asyncio.ensure_future(pushes(client, [1])[0])
            await asyncio.to_thread(proxy.holding.wait, 60)
            sent.cancel()
            await asyncio.gather(sent, return_exceptions=True)
            proxy.release()
            return await asyncio.gather(*pushes(client, [2, 3]))

        assert all(asyncio.run(push()))
    wait_for(lambda: numbers_in(raw_redis, tag) == 4)  # the lost one was executed


def test_a_refusal_by_role_is_repeated_on_another_connection_in_the_same_time(client, monkeypatch, raw_redis, tag):
    refused = [ReadOnlyError("READONLY You can't write against a read only replica.")] * 2
    refused_at, deadlines, repeat = [], [], client.redis.pipeline

    def pipeline(*args, **how):
        deadlines.append(how["deadline"])
        return repeat(*args, **how)

    async def push():
        await pushes(client, [1])[0]
        monkeypatch.setattr(client.redis, "pipeline", pipeline)
        (wire,) = filter(None, client.redis._free)
        wire._replies.receive = lambda refuse: refused_at.append(time.monotonic()) or [*map(refuse, refused)]
        assert await pushes(client, [2])[0]
        assert "receive" not in vars(wire._replies)

    asyncio.run(push())
    assert deadlines[0] < refused_at[0] + client.limit_seconds()
    assert numbers_in(raw_redis, tag) == 3  # the server has executed what the test says it has refused


def test_a_lost_reply_makes_the_pushes_of_its_group_ambiguous_and_none_is_repeated(config, raw_redis, tag):
    with FaultProxy(config.redis.url) as proxy:
        config.redis.url = proxy.url
        client = Client(config)

        async def push():
            await client.apush({"class": "X", "args": []})
            proxy.lose_reply(b"LPUSH")
            return await asyncio.gather(*pushes(client, range(5)), return_exceptions=True)

        outcomes = asyncio.run(push())
    failed = [outcome for outcome in outcomes if isinstance(outcome, RedisUnavailable)]
    assert failed
    assert all(failure.ambiguous for failure in failed)
    assert numbers_in(raw_redis, tag) == 6


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("is_group", [False, True])
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_loop_that_ends_during_a_push_keeps_no_connection_and_is_forgotten(
    is_closed, is_group, config, raw_redis, tag
):
    with FaultProxy(config.redis.url) as proxy:
        config.redis.url = proxy.url
        config.redis.client_pool_size = 1
        client = Client(config)
        send = client._asend

        async def hold(groups):
            if groups[0][0].payload["args"] != [1] and is_group == (len(groups[0]) > 1):
                proxy.black_hole()
            return await send(groups)

        async def leave():
            client._asend = hold
            await pushes(client, [1])[0]
            for push in pushes(client, [2, 3, 4]):
                asyncio.ensure_future(push)  # noqa: RUF006 - the loop ends before it
            while proxy._flowing.is_set():  # noqa: ASYNC110 - an event would keep the loop
                await asyncio.sleep(0)

        loop = asyncio.new_event_loop()
        loop.run_until_complete(leave())
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False
        if is_closed:
            loop.close()
        forgotten = weakref.ref(loop)
        proxy.release()
        del loop, task
        assert grouped.via(client).enqueue(5)
        wait_for(lambda: (gc.collect(), forgotten() is None)[1])
        client.close()
    wait_for(lambda: numbers_in(raw_redis, tag) == (5 if is_group else 3))


def test_a_blocking_push_succeeds_while_that_of_the_loop_has_the_only_connection(config, raw_redis, tag):
    config.redis.client_pool_size = 1
    client = Client(config)

    async def push():
        await pushes(client, [1])[0]
        sent = asyncio.ensure_future(pushes(client, [2])[0])
        await asyncio.sleep(0)
        pushed = client.push(ITEM), await sent
        wire = client.redis._borrow(None)
        waiting = asyncio.ensure_future(client.apush(ITEM))
        await asyncio.sleep(0)
        client.redis._give_back(wire)
        return *pushed, await waiting

    assert all(asyncio.run(push()))
    assert numbers_in(raw_redis, tag) == 4
    assert len(client.redis._free) == 1


def test_loops_of_many_threads_push_with_one_client(client, raw_redis, tag):
    def push(number):
        return [bool(asyncio.run(pushes(client, [number])[0])) for _ in range(20)]

    with ThreadPoolExecutor(8) as threads:
        assert all(map(all, threads.map(push, range(8))))
    assert numbers_in(raw_redis, tag) == 160


@pytest.mark.parametrize("how", [{}, {"wait_replicas": 1}])
def test_a_server_that_does_not_reply_delays_no_push_to_another(how, config, raw_redis, tag):
    with FaultProxy(config.redis.url) as proxy:
        proxy.black_hole()
        config.add_server("frozen", url=proxy.url)
        config.redis.client_pool_size = 2  # one thread
        config.client.push_timeout_seconds = 60
        client = Client(config)

        async def push():
            frozen = [asyncio.ensure_future(client.apush({**ITEM, "server": "frozen"}, **how)) for _ in range(3)]
            await asyncio.sleep(0)
            assert await client.apush(ITEM)
            assert not any(task.done() for task in frozen)
            for task in frozen:
                task.cancel()
            proxy.release()
            await asyncio.gather(*frozen, return_exceptions=True)

        asyncio.run(push())
        wait_for(lambda: not client.server_of("frozen").loop_threads._running)
    assert numbers_in(raw_redis, tag) == 1


@pytest.mark.parametrize("item", [{}, {"at": 60}])
def test_a_push_cancelled_while_a_thread_connects_is_not_stored(item, config, raw_redis, tag):
    with FaultProxy(config.redis.url) as proxy:
        config.redis.url = proxy.url
        config.client.push_timeout_seconds = 60
        client = Client(config)

        async def push():
            proxy.black_hole()
            sent = asyncio.ensure_future(client.apush({**ITEM, **item}))
            await asyncio.to_thread(wait_for, lambda: proxy.connections)
            sent.cancel()
            await asyncio.gather(sent, return_exceptions=True)
            proxy.release()

        asyncio.run(push())
        wait_for(lambda: not client.installation.loop_threads._running)
    assert (numbers_in(raw_redis, tag), raw_redis.zcard(f"{tag}schedule")) == (0, 0)


def test_a_blocking_exchange_after_one_of_a_loop_blocks_again(client):
    async def push():
        await asyncio.gather(*pushes(client, range(2)))

    asyncio.run(push())
    (wire,) = filter(None, client.redis._free)
    wire._limit(NEARLY_SECONDS / 2)
    assert wire._connection._sock.gettimeout() == NEARLY_SECONDS / 2


def test_all_tasks_of_a_loop_are_cancelled_together(client, held):
    async def push():
        tasks = [asyncio.ensure_future(push) for push in pushes(client, range(4))]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0.01)
        for task in asyncio.all_tasks() - {asyncio.current_task()} - {*tasks}:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert {type(outcome) for outcome in asyncio.run(push())} == {asyncio.CancelledError}


def test_a_forked_child_pushes_while_its_parent_waits(config, raw_redis, tag):
    with FaultProxy(config.redis.url) as proxy:
        config.redis.url, config.client.push_timeout_seconds = proxy.url, 60
        client = Client(config)

        async def push():
            await pushes(client, [0])[0]
            proxy.hold()
            waiting = asyncio.ensure_future(pushes(client, [1])[0])
            await asyncio.to_thread(proxy.holding.wait, 60)
            child = os.fork()
            if child == 0:
                done = []
                pusher = threading.Thread(target=lambda: done.append(asyncio.run(pushes(client, [2])[0])))
                pusher.start()
                pusher.join(30)
                os._exit(0 if done else 1)
            proxy.release()
            return child, await waiting

        child, jid = asyncio.run(push())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (bool(jid), numbers_in(raw_redis, tag)) == (True, 3)


def test_a_process_that_can_start_no_more_threads_stores_in_its_own(client, monkeypatch, raw_redis, tag):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert asyncio.run(client.apush({"class": "X", "args": []}))
    assert numbers_in(raw_redis, tag) == 1


def test_in_an_outage_no_push_waits_much_longer_than_it_may_take(config, redis_url):
    with FaultProxy(redis_url) as proxy:
        config.redis.url = proxy.url
        config.client.push_timeout_seconds = 0.5
        client = Client(config)

        async def push():
            await client.apush({"class": "X", "args": []})
            proxy.black_hole()
            big = {"class": "X", "args": ["x" * 100_000]}
            started = time.monotonic()
            failures = await asyncio.gather(*(client.apush(big) for _ in range(90)), return_exceptions=True)
            return failures, time.monotonic() - started

        failures, seconds = asyncio.run(push())
    assert all(isinstance(failure, RedisUnavailable) for failure in failures)
    assert not all(failure.ambiguous for failure in failures)
    assert seconds < 12  # 30 groups would take 15 s


class NotCopied(Exception):
    def __new__(cls, *, reason):
        return super().__new__(cls)

    def __init__(self, *, reason):
        super().__init__(reason)


@pytest.mark.parametrize("error", [ValueError("no call"), StopIteration(), NotCopied(reason="no call")])
def test_a_failing_guard_fails_its_own_push_only(error, config, client, raw_redis, tag):
    class Guard:
        def concerns(self, push):
            return push.payload["class"] == "Guarded"

        def due(self, push, now):
            return None

        def take(self, push, at):
            return self.concerns(push)

        def call(self, keys, jobs):
            raise error

        def refused(self, jobs, reply):
            return ()

    config.push_guard = Guard()

    async def push(*names):
        pushing = (client.apush({"class": name, "args": []}) for name in names)
        return await asyncio.wait_for(asyncio.gather(*pushing, return_exceptions=True), 30)

    outcomes = asyncio.run(push("X", "Guarded", "X"))
    assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, True, False]
    assert outcomes[1].__cause__ is error
    assert numbers_in(raw_redis, tag) == 2
    (alone,) = asyncio.run(push("Guarded"))
    assert error in (alone, alone.__cause__)
