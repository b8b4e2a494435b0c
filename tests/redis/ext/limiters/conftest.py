"""Limiters on a real server whose time the test sets.

Fixtures
    config   with the extension, on an empty server
    time     the time of the server, of this process and of its pauses: time.advance(seconds), time.pauses;
             time.then() is called after a pause
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from offsider.ext.limiters import Limiters, store, use
from offsider.testing import FakeClock

TIME = "redis.call('TIME')"
SET_TIME = "redis.call('HMGET', '{offsider}:test:clock', 'seconds', 'microseconds')"
#: A full minute.
START = 1_800_000_000


class ServerTime(FakeClock):
    def __init__(self, raw_redis) -> None:
        super().__init__(START)
        self._redis = raw_redis
        self._us = START * 1_000_000
        self.pauses = []
        self.then = lambda: None
        self._show()

    def _show(self) -> None:
        seconds, microseconds = divmod(self._us, 1_000_000)
        self._redis.hset("{offsider}:test:clock", mapping={"seconds": seconds, "microseconds": microseconds})

    def advance(self, by: float) -> None:
        super().advance(by)
        self._us += round(by * 1_000_000)
        self._show()

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.advance(seconds)
        self.then()

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


@pytest.fixture
def extension():
    return Limiters()


@pytest.fixture
def config(config, extension):
    config.worker.timeout_seconds = 5
    config.use(extension)
    return config


@pytest.fixture
def time(config, raw_redis, monkeypatch):
    time = ServerTime(raw_redis)
    for name in ("TAKE", "FREE_SLOT"):
        script = getattr(store, name)
        assert TIME in script.source
        monkeypatch.setattr(store, name, type(script)(name, source=script.source.replace(TIME, SET_TIME)))
    # Not `time.sleep` itself, which threads of other libraries call.
    monkeypatch.setattr(use, "time", SimpleNamespace(sleep=time.sleep))
    monkeypatch.setattr(use, "asyncio", SimpleNamespace(sleep=time.sleep_async))
    with time.installed(config):
        yield time
