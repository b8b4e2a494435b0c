"""What is the asynchronous client's own; all it shares is tested in test_sync.py, for both."""

import asyncio

import pytest

from offsider.client import AsyncClient
from offsider.core.payload import decode
from tests.redis.client.clients import Awaited, config_for


def test_one_asynchronous_client_serves_several_loops_and_many_tasks(redis_url, raw_redis):
    client = AsyncClient(config_for(redis_url))

    async def push_twenty():
        jids = await asyncio.gather(*(client.push({"class": "X", "args": []}) for _ in range(20)))
        await client.close()
        return jids

    assert len({*asyncio.run(push_twenty()), *asyncio.run(push_twenty())}) == 40
    assert raw_redis.llen("queue:default") == 40


def test_an_asynchronous_push_after_commit_uses_a_blocking_client(redis_url, raw_redis):
    config, callbacks = config_for(redis_url), []
    config.after_commit = callbacks.append
    jid = Awaited(config).push({"class": "X", "args": []})
    assert raw_redis.llen("queue:default") == 0
    callbacks[0]()
    assert decode(raw_redis.lrange("queue:default", 0, 0)[0])["jid"] == jid


def test_an_error_of_after_commit_is_raised(redis_url, raw_redis):
    config = config_for(redis_url)
    config.after_commit = lambda callback: 1 / 0
    with pytest.raises(ZeroDivisionError):
        Awaited(config).push({"class": "X", "args": []})
    assert raw_redis.llen("queue:default") == 0
