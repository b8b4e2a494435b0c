"""Periodic jobs on a server whose time the test sets.

Fixtures
    clock      the server's time, for the scripts of periodic jobs: clock.set(epoch seconds)
    process    makes what one worker process has: process(entries, wrong_by=300); with main= a URL, it works for the
               server "bulk", at url, and that is "main"
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.clock import Clock
from offsider.ext.periodic import store
from offsider.ext.periodic.entry import Entry
from offsider.ext.periodic.service import PeriodicService
from offsider.ext.periodic.store import Servers
from offsider.jobs import registry
from offsider.storage.scripts import Script

TIME = "redis.call('TIME')"
SET_TIME = "(function() return {redis.call('GET', '{offsider}:test:now'), '0'} end)()"


class ServerClock:
    def __init__(self, raw_redis) -> None:
        self._redis = raw_redis

    def set(self, now: int) -> None:
        self._redis.set("{offsider}:test:now", int(now))

    @property
    def now(self) -> int:
        return int(self._redis.get("{offsider}:test:now"))


class WrongClock(Clock):
    def __init__(self, offset_seconds: float) -> None:
        self.offset_seconds = offset_seconds

    def now(self) -> float:
        return super().now() + self.offset_seconds


class Process:
    def __init__(self, url: str, entries: Sequence[Entry], wrong_by: float, main: str) -> None:
        config = Config()
        config.redis.url = main or url
        if main:
            config.add_server("bulk", url=url)
        self.config = config
        installation = Installation.of(config, "bulk" if main else "")
        self.config.clock = WrongClock(wrong_by)
        self.errors: list[tuple[BaseException, dict[str, object]]] = []
        self.config.error_handlers.append(lambda error, context: self.errors.append((error, dict(context))))
        self.redis = installation.redis
        self.service = PeriodicService(installation, entries, Servers.of(installation))
        self.tick = self.service.tick

    def settle(self) -> float:
        """Tick until nothing is due; returns the seconds until the next tick."""
        while not (pause_seconds := self.tick()):
            continue
        return pause_seconds

    def close(self) -> None:
        self.service.stop()
        Installation.of(self.config).close()


@pytest.fixture
def clock(raw_redis) -> Iterator[ServerClock]:
    scripts = (store.LOOK, store.CLAIM, store.RESUME, store.ADD)
    before = [script.source for script in scripts]
    for script in scripts:
        assert TIME in script.source
        use(script, script.source.replace(TIME, SET_TIME))
    yield ServerClock(raw_redis)
    for script, source in zip(scripts, before, strict=True):
        use(script, source)


def use(script: Script, source: str) -> None:
    script.source = source
    script._use(source)
    store._claiming.cache_clear()


@pytest.fixture
def process(redis_url) -> Iterator[object]:
    made: list[Process] = []

    def make_process(*entries: Entry, wrong_by: float = 0.0, url: str = redis_url, main: str = "") -> Process:
        made.append(Process(url, entries, wrong_by, main))
        return made[-1]

    with registry.isolated():
        yield make_process
    for one in made:
        one.close()


@pytest.fixture
def pushed(raw_redis):
    """The ticks whose jobs are in a queue, the first one first."""

    def look(queue: str = "default") -> list[int]:
        return [json.loads(raw)["periodic"]["at"] for raw in reversed(raw_redis.lrange(f"queue:{queue}", 0, -1))]

    return look
