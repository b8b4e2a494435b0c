"""A worker's parts on an empty server, without a launcher: each test assembles the parts it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.worker.alive.isolation import Isolation
from offsider.worker.alive.ownership import Ownership
from offsider.worker.fetch.fetcher import FetcherContext, Settled
from offsider.worker.fetch.reliable import ReliableFetcher
from tests.faults import FaultProxy

PATIENT = 30.0


def make_config(url: str) -> Config:
    config = Config()
    config.redis.url = url
    config.redis.socket_timeout_seconds = PATIENT  # the machine may be busy
    return config


@pytest.fixture
def worker_config(redis_url: str) -> Config:
    return make_config(redis_url)


@pytest.fixture
def proxied_config(proxy: FaultProxy) -> Config:
    return make_config(proxy.url)


class Parts:
    """What a launcher would make for the capsule ``default``."""

    def __init__(self, config: Config, queues: tuple[str, ...] = ("default",)) -> None:
        self.config = config
        self.errors: list[tuple[BaseException, dict[str, object]]] = []
        config.error_handlers.append(lambda error, context: self.errors.append((error, dict(context))))
        self.capsule = config.capsules["default"]
        self.capsule.settings.queues = list(queues)
        self.redis = Installation.of(config).make_redis(3)
        self.ownership = Ownership(self.redis, {"default": self.capsule.queues}, config.worker.liveness_seconds)
        self.listeners: list[Callable[[Sequence[Settled]], None]] = []
        self.isolation = Isolation(self.redis, lambda: {"default": ("default",)}, max_strikes=3, leaving=lambda: False)
        self.pool = Installation.of(config).make_redis(self.capsule.connections)
        self.context = FetcherContext(
            config, self.capsule, self.pool, self.ownership, self._report, self.isolation.claims_allowed
        )
        self.fetcher = ReliableFetcher(self.context)
        self.isolation.join(self.fetcher)

    def _report(self, settled: Sequence[Settled]) -> None:
        for listener in self.listeners:
            listener(settled)

    @property
    def working(self) -> str:
        return self.redis.keys.working(self.ownership.identity, "default", "default")

    def close(self) -> None:
        self.fetcher.quiet()
        with suppress(OSError):  # a test may have closed it
            self.fetcher.close()
        self.fetcher._ticker.join(10)
        self.redis.close()
        self.pool.close()


@pytest.fixture
def parts(worker_config: Config) -> Iterator[Parts]:
    parts = Parts(worker_config)
    yield parts
    parts.close()


@pytest.fixture
def proxied(proxied_config: Config) -> Iterator[Parts]:
    """The same with a fault proxy before the server."""
    parts = Parts(proxied_config)
    yield parts
    parts.close()
