"""A push has one deadline: for a free connection, for connecting and for the reply together."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from offsider import Config, job
from offsider.client import Client
from offsider.core.errors import NotReplicated, RedisUnavailable
from offsider.jobs import registry
from offsider.jobs.clients import pushing_with
from offsider.storage.redis import NEARLY_SECONDS
from tests.redis.client.clients import config_for

ITEM = {"class": "X", "args": []}
LIMIT_SECONDS = 0.4
MORE_SECONDS = 8.0


def impatient(url: str, seconds: float = LIMIT_SECONDS) -> Config:
    config = config_for(url)
    config.client.push_timeout_seconds = seconds
    config.redis.socket_timeout_seconds = 60
    return config


def timed(push) -> tuple[float, bool]:
    """Return the duration of a failing push, and whether its error was ambiguous."""
    started = time.monotonic()
    with pytest.raises(RedisUnavailable) as failure:
        push()
    return time.monotonic() - started, failure.value.ambiguous


async def timed_async(client: Client) -> tuple[float, bool]:
    started = time.monotonic()
    with pytest.raises(RedisUnavailable) as failure:
        await client.apush(ITEM)
    return time.monotonic() - started, failure.value.ambiguous


def check(failures: list[tuple[float, bool]], *, ambiguous: int) -> None:
    durations = sorted(seconds for seconds, _ in failures)
    p99 = durations[math.ceil(len(durations) * 0.99) - 1]
    assert p99 <= LIMIT_SECONDS + MORE_SECONDS
    assert sum(is_ambiguous for _, is_ambiguous in failures) == ambiguous


@pytest.fixture
def server(make_server):
    """A server of its own, which a test may freeze: it accepts connections and does not reply."""
    server = make_server(port=0)
    yield server
    os.kill(server.pid, signal.SIGCONT)


@pytest.mark.parametrize("warm", [True, False], ids=["connected", "connecting"])
def test_pushes_of_many_threads_to_a_frozen_server_end_in_time(server, warm):
    config = impatient(server.url, 60)
    config.redis.client_pool_size = 2
    client = Client(config)
    if warm:
        client.push(ITEM)
    config.client.push_timeout_seconds = LIMIT_SECONDS
    os.kill(server.pid, signal.SIGSTOP)
    with ThreadPoolExecutor(64) as threads:  # if waits for a connection did not count, the last one would wait longer
        failures = list(threads.map(lambda _: timed(lambda: client.push(ITEM)), range(64)))
    # Only a command that was sent on the open connection may have stored its job.
    check(failures, ambiguous=1 if warm else 0)
    os.kill(server.pid, signal.SIGCONT)
    config.client.push_timeout_seconds = 60
    assert client.push(ITEM)
    client.close()


@pytest.mark.parametrize("warm", [True, False], ids=["connected", "connecting"])
def test_awaited_pushes_to_a_frozen_server_end_in_time(server, warm):
    async def push_many() -> list[tuple[float, bool]]:
        client = Client(config := impatient(server.url, 60))
        if warm:
            await client.apush(ITEM)
        config.client.push_timeout_seconds = LIMIT_SECONDS
        os.kill(server.pid, signal.SIGSTOP)
        failures = [await timed_async(client), *await asyncio.gather(*(timed_async(client) for _ in range(32)))]
        os.kill(server.pid, signal.SIGCONT)
        config.client.push_timeout_seconds = 60
        assert await client.apush(ITEM)
        client.close()
        return failures

    check(asyncio.run(push_many()), ambiguous=1 if warm else 0)


@pytest.mark.parametrize("warm", [True, False], ids=["connected", "connecting"])
def test_pushes_that_start_together_do_not_share_one_limit(redis_url, raw_redis, warm):
    """Thousands of tasks need longer than one push may: to begin, here a blocked loop, and to get a connection."""

    async def block() -> None:
        time.sleep(1.5 * LIMIT_SECONDS)  # noqa: ASYNC251 - as tasks do that run to their first wait

    async def push_many() -> None:
        client = Client(impatient(redis_url, LIMIT_SECONDS))
        if warm:
            await asyncio.gather(*(client.apush(ITEM) for _ in range(10)))
        pushes = [client.apush(ITEM) for _ in range(40)]
        await asyncio.gather(*pushes[:20], block(), *pushes[20:], block())
        client.close()

    asyncio.run(push_many())
    assert raw_redis.llen("queue:default") == (50 if warm else 40)


@pytest.fixture
def no_names(monkeypatch):
    """Lookups of host names that hang until the test ends them."""
    ended = threading.Event()

    def hang(*_, **__):
        ended.wait(60)
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    yield ended
    ended.set()


def test_a_lookup_of_the_host_name_counts(no_names):
    client = Client(impatient("redis://redis.invalid:6379/0"))
    check([timed(lambda: client.push(ITEM))], ambiguous=0)


def test_an_awaited_lookup_of_the_host_name_counts(no_names):
    async def push() -> tuple[float, bool]:
        failure = await timed_async(Client(impatient("redis://redis.invalid:6379/0")))
        no_names.set()  # the end of the loop waits for the lookup's thread
        return failure

    check([asyncio.run(push())], ambiguous=0)


def test_connecting_to_an_address_that_drops_packets_counts(make_client):
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # a full backlog drops more attempts, like a firewall
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        client = make_client(impatient(f"redis://127.0.0.1:{listener.getsockname()[1]}/0"))
        check([timed(lambda: client.push(ITEM))], ambiguous=0)


def test_waiting_for_replicas_may_take_its_second_more(make_client, redis_url, replicas):
    with pytest.raises(NotReplicated):
        make_client(impatient(redis_url)).push(ITEM, wait_replicas=replicas + 1)


def test_a_push_without_new_threads_connects_in_its_own(redis_url, raw_redis, monkeypatch):
    """As in a function of `atexit`."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    client = Client(impatient(redis_url, 10))
    assert client.push(ITEM)
    client.close()


def test_other_calls_on_the_same_connection_keep_their_timeout(redis_url):
    client = Client(impatient(redis_url, 10))
    client.push(ITEM)
    assert client.redis.call("PING") == b"PONG"
    (wire,) = filter(None, client.redis._free)
    assert wire._connection._sock.gettimeout() == 60.0
    client.close()


def test_a_job_waits_for_its_push_as_long_as_its_worker(server):
    with registry.isolated():

        @job(name="X")
        def x() -> None: ...

        config = impatient(server.url, 0.05)
        client = Client(config, timeout_seconds=LIMIT_SECONDS)
        with pushing_with(client):
            x.enqueue()
            os.kill(server.pid, signal.SIGSTOP)
            seconds, _ = timed(x.enqueue)
    assert LIMIT_SECONDS - NEARLY_SECONDS <= seconds <= LIMIT_SECONDS + MORE_SECONDS
