"""A pool of the façade under test, on an empty server; faults come from a proxy before it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from offsider.storage.redis import Redis, RedisSettings
from tests.faults import FaultProxy


@pytest.fixture
def pool(redis_url: str) -> Iterator[Redis]:
    pool = Redis(RedisSettings(url=redis_url), size=4)
    yield pool
    pool.close()


@pytest.fixture
def make_pool() -> Iterator[Callable[..., Redis]]:
    """Makes pools of one connection with these settings, and closes them."""
    with ExitStack() as stack:

        def make(*, size: int = 1, **settings: Any) -> Redis:
            pool = Redis(RedisSettings(**settings), size=size)
            stack.callback(pool.close)
            return pool

        yield make


@pytest.fixture
def proxied(proxy: FaultProxy) -> Iterator[Redis]:
    pool = Redis(RedisSettings(url=proxy.url, socket_timeout_seconds=30), size=4)
    yield pool
    pool.close()
