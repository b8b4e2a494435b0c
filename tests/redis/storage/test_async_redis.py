"""The asynchronous façade keeps the same promises as the other one."""

import asyncio
import gc
import os
import signal
import threading
import time
import warnings

import pytest

from offsider.core.errors import ConfigurationError, QueueFull, RedisRefused, RedisUnavailable
from offsider.storage import queues
from offsider.storage.async_redis import AsyncRedis, _LoopPool
from offsider.storage.redis import Redis, RedisSettings
from tests.faults import FaultProxy
from tests.snapshot import snapshot
from tests.threads import hammering

PATIENT = {"socket_timeout_seconds": 30}  # the machine may be busy


def run(url: str, use, *, size: int = 2, **settings):
    """Call ``use(redis)`` on an event loop of its own."""

    async def on_a_loop():
        redis = AsyncRedis(RedisSettings(**PATIENT | {"url": url} | settings), size=size)
        try:
            return await use(redis)
        finally:
            await redis.close()

    return asyncio.run(on_a_loop())


def test_a_push_stores_the_same_as_the_other_facade(redis_url, raw_redis, pool):
    commands = queues.push_commands(pool.keys, "default", [b"{}"])
    assert run(redis_url, lambda redis: redis.pipeline(commands)) == [1, 1]
    stored = snapshot(raw_redis)
    raw_redis.flushall()
    assert pool.pipeline(commands) == [1, 1]
    assert snapshot(raw_redis) == stored == {"queues": {b"default"}, "queue:default": [b"{}"]}


def test_errors_are_raised_or_returned_in_the_list(redis_url, tag):
    commands = [("SET", f"{tag}k", 1), ("LPUSH", f"{tag}k", 1), ("GET", f"{tag}k")]
    with pytest.raises(RedisRefused) as refused:
        run(redis_url, lambda redis: redis.pipeline(commands))
    assert refused.value.code == "WRONGTYPE"
    replies = run(redis_url, lambda redis: redis.pipeline(commands, raise_errors=False))
    assert isinstance(replies[1], RedisRefused)
    assert (replies[0], replies[2]) == (b"OK", b"1")


def test_a_lost_reply_is_ambiguous_and_the_push_is_not_repeated(redis_url, proxy, raw_redis, tag):
    proxy.lose_reply(b"LPUSH", times=3)
    with pytest.raises(RedisUnavailable) as failure:
        run(proxy.url, lambda redis: redis.call("LPUSH", f"{tag}queue:default", "{}"))
    assert failure.value.ambiguous
    assert raw_redis.lrange("queue:default", 0, -1) == [b"{}"]
    assert proxy.lost == 1


def test_a_server_that_cannot_be_reached_is_not_ambiguous(proxy):
    proxy.refuse()
    with pytest.raises(RedisUnavailable) as failure:
        run(proxy.url, lambda redis: redis.call("PING"))
    assert not failure.value.ambiguous


@pytest.mark.parametrize("how", ["reset", "close"])
def test_an_idle_connection_that_broke_is_replaced_without_an_error(proxy, how, tag):
    async def use(redis):
        await redis.call("PING")
        receiver = next(iter(redis._pools.values())).free[-1]._replies
        getattr(proxy, how)()
        async with asyncio.timeout(10):
            while receiver.is_open:  # noqa: ASYNC110 - the loop has to see it first
                await asyncio.sleep(0)
        return await redis.call("INCR", f"{tag}n")

    assert run(proxy.url, use) == 1
    assert proxy.connections == 2


def test_a_frozen_server_is_an_ambiguous_failure_in_time(make_server):
    server = make_server(port=0)

    async def use(redis):
        await redis.call("PING")
        os.kill(server.pid, signal.SIGSTOP)
        try:
            await redis.call("LPUSH", "l", 1)
        finally:
            os.kill(server.pid, signal.SIGCONT)

    with pytest.raises(RedisUnavailable) as failure:
        run(server.url, use, socket_timeout_seconds=0.2)
    assert failure.value.ambiguous


def test_a_full_server_is_a_full_queue(make_server):
    server = make_server(maxmemory="1")
    with pytest.raises(QueueFull):
        run(server.url, lambda redis: redis.call("LPUSH", "l", 1))


def test_cancelling_in_the_middle_of_a_call_does_not_poison_the_connection(proxy, tag):
    """The reply of the cancelled call must not be taken for that of the next one."""

    async def use(redis):
        await redis.call("SET", f"{tag}k", "old")
        proxy.hold()
        call = asyncio.ensure_future(redis.call("GET", f"{tag}k"))
        await asyncio.to_thread(proxy.holding.wait)  # the server has carried it out
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        proxy.release()
        return [await redis.call("ECHO", f"new {n}") for n in range(3)]

    assert run(proxy.url, use) == [b"new 0", b"new 1", b"new 2"]


def test_a_cancellation_is_never_swallowed(redis_url, tag):
    """Cancelled at any step, the call ends immediately with CancelledError or with its result."""

    async def use(redis):
        await redis.call("PING")
        for steps in range(12):
            call = asyncio.ensure_future(redis.call("BLPOP", f"{tag}never", 25))
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                async with asyncio.timeout(10):
                    await call
        return await redis.call("PING")

    assert run(redis_url, use) == b"PONG"


def test_an_exhausted_pool_raises_with_the_next_step(redis_url, tag, monkeypatch):
    async def use(redis):
        blocked = [asyncio.ensure_future(redis.call("BLPOP", f"{tag}never", 1)) for _ in range(2)]
        await asyncio.sleep(0)
        try:
            with pytest.raises(RedisUnavailable, match=r"server replies, and raise .* fewer tasks") as failure:
                await redis.call("PING")
            assert not failure.value.ambiguous
        finally:
            for call in blocked:
                call.cancel()
            await asyncio.gather(*blocked, return_exceptions=True)
        return await redis.call("PING")

    monkeypatch.setattr("offsider.storage.async_redis.POOL_WAIT_SECONDS", 0.01)
    assert run(redis_url, use) == b"PONG"


def test_a_task_waits_for_a_connection_as_long_as_the_server_answers_others(redis_url, tag):
    calls = run(
        redis_url,
        lambda redis: asyncio.gather(*(redis.call("BLPOP", f"{tag}never", 0.25) for _ in range(12))),
    )
    assert calls == [None] * 12


def test_tasks_of_different_patience_each_end_in_their_time(redis_url, tag, monkeypatch):
    async def use(redis):
        blocked = [asyncio.ensure_future(redis.call("BLPOP", f"{tag}never", 25)) for _ in range(2)]
        patient = asyncio.ensure_future(redis.call("PING"))
        await asyncio.sleep(0)
        with pytest.raises(RedisUnavailable):
            await redis.pipeline([("PING",)], seconds=0.01)
        assert not patient.done()
        for call in (*blocked, patient):
            call.cancel()
        await asyncio.gather(*blocked, patient, return_exceptions=True)

    monkeypatch.setattr("offsider.storage.async_redis.POOL_WAIT_SECONDS", 30)
    run(redis_url, use)


def test_a_task_that_never_pauses_does_not_keep_the_others_waiting(redis_url):
    async def use(redis):
        order = []

        async def call(name, times):
            for _ in range(times):
                await redis.call("PING")
                order.append(name)

        await asyncio.gather(*(call(name, 10) for name in "abcdef"))
        return order

    assert run(redis_url, use, size=1) == list("abcdef") * 10


def test_a_connection_that_arrives_with_a_cancellation_goes_to_the_next_task():
    async def on_a_loop():
        pool = _LoopPool(None, 0)
        first, second = (asyncio.ensure_future(pool.wait(10)) for _ in range(2))
        await asyncio.sleep(0)
        pool.give_back(None)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await second is None
        pool.give_back(None)
        assert pool.free == [None]

    asyncio.run(on_a_loop())


def test_many_tasks_share_few_connections(redis_url, raw_redis, tag):
    with FaultProxy(redis_url) as counting:
        run(counting.url, lambda redis: asyncio.gather(*(redis.call("INCR", f"{tag}n") for _ in range(50))))
        assert raw_redis.get("n") == b"50"
        assert counting.connections <= 2


def test_each_event_loop_has_connections_of_its_own_and_ended_loops_keep_none(redis_url, tag):
    """A program may call asyncio.run for each push."""
    redis = AsyncRedis(RedisSettings(url=redis_url), size=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the ended loops left their connections open
        for n in range(1, 6):
            assert asyncio.run(redis.call("INCR", f"{tag}n")) == n
            assert len(redis._pools) == 1
        redis._pools.clear()
        gc.collect()


def test_a_connection_in_use_is_closed_after_its_call_if_the_pool_was_closed(redis_url, raw_redis, tag):
    url = f"{redis_url}{'&' if '?' in redis_url else '?'}client_name=closed-later"

    def is_open():
        return any(one["name"] == "closed-later" for one in raw_redis.client_list())

    async def use():
        redis = AsyncRedis(RedisSettings(**PATIENT | {"url": url}), size=2)
        await redis.call("PING")
        calls = [asyncio.ensure_future(redis.call("BLPOP", f"{tag}l", 25)) for _ in range(3)]  # one waits for the pool
        await asyncio.sleep(0)
        await redis.close()
        assert is_open()
        raw_redis.rpush("l", 1, 2, 3)
        assert sorted([value for _, value in await asyncio.gather(*calls)]) == [b"1", b"2", b"3"]
        async with asyncio.timeout(30):
            while await asyncio.to_thread(is_open):
                pass

    asyncio.run(use())


def hellos(raw_redis):
    return raw_redis.info("commandstats").get("cmdstat_hello", {"calls": 0})["calls"]


def test_tasks_that_start_together_ask_once_for_the_kind_of_the_server(redis_url, raw_redis):
    before = hellos(raw_redis)
    run(redis_url, lambda redis: asyncio.gather(*(redis.check_server() for _ in range(20))))
    assert hellos(raw_redis) == before + 1


def test_a_cancelled_task_does_not_end_the_check_of_the_others(proxy, raw_redis):
    async def use(redis):
        await redis.call("PING")
        proxy.hold()
        first, second = (asyncio.ensure_future(redis.check_server()) for _ in range(2))
        await asyncio.to_thread(proxy.holding.wait)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        proxy.release()
        await second

    before = hellos(raw_redis)
    run(proxy.url, use)
    assert hellos(raw_redis) == before + 1


def test_a_failed_check_fails_for_all_and_is_repeated_by_the_next(proxy):
    async def use(redis):
        proxy.refuse()
        errors = await asyncio.gather(*(redis.check_server() for _ in range(3)), return_exceptions=True)
        assert [(type(error), error.ambiguous) for error in errors] == [(RedisUnavailable, False)] * 3
        proxy.accept()
        await redis.check_server()

    run(proxy.url, use)


def test_the_asynchronous_facade_needs_the_same_settings(redis_url):
    sync = Redis(RedisSettings(url=redis_url, key_prefix="{p}:"), size=1)
    assert AsyncRedis(RedisSettings(url=redis_url, key_prefix="{p}:"), size=1).keys.queues == sync.keys.queues


def test_an_unusable_url_names_the_setting():
    with pytest.raises(ConfigurationError, match=r"redis\.url"):
        run("http://localhost", lambda redis: redis.call("PING"))


def test_loops_of_several_threads_may_begin_at_the_same_time(embedded_url):
    """Each of them adds its connections, and drops those of loops that have ended."""
    shared = AsyncRedis(RedisSettings(**PATIENT | {"url": embedded_url}), size=1)

    async def use():
        assert await shared.call("PING") == b"PONG"
        await shared.close()

    others = [asyncio.new_event_loop() for _ in range(60)]
    for loop in others:
        loop.run_until_complete(shared.call("PING"))
    ends = time.monotonic() + 1.5
    with hammering(*[lambda: asyncio.run(use())] * 4) as errors:
        while time.monotonic() < ends and not errors:
            threading.Event().wait(0.05)
    assert errors == []
    for loop in others:
        loop.run_until_complete(shared.close())
        loop.close()
