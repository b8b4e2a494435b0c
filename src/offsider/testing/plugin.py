"""The pytest plugin: fixtures for applications with jobs. Loading it costs nothing; what it needs is imported later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from offsider import Config
    from offsider.embedded import EmbeddedServer
    from offsider.testing import FakeClock, Recorder, RunningWorker


@pytest.fixture
def offsider_fake() -> Iterator[Recorder]:
    """Keeps every push in memory: ``jobs``, ``drain()`` and more; for `assert_enqueued`. No Redis."""
    from offsider.testing.modes import fake

    with fake() as recorder:
        yield recorder


@pytest.fixture
def offsider_inline() -> Iterator[None]:
    """Runs every job where it is pushed. No Redis."""
    from offsider.testing.modes import inline

    with inline():
        yield


@pytest.fixture
def offsider_clock() -> Iterator[FakeClock]:
    """A clock that stands still until ``advance(seconds)``; what enqueued jobs are stamped with."""
    from offsider.testing.fake_clock import FakeClock

    with FakeClock().installed() as clock:
        yield clock


@pytest.fixture
def offsider_config() -> Config:
    """The configuration for `offsider_server` and `offsider_worker`: files and environment, and the middleware of the
    process's default. Override it in a conftest.py when the worker needs more.
    """
    from offsider.wiring.config import Config
    from offsider.wiring.default import default_config

    config, default = Config.load(), default_config()
    config.client_middleware.add(*default.client_middleware)
    config.server_middleware.add(*default.server_middleware)
    return config


@pytest.fixture(scope="session")
def offsider_session_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """The server behind `offsider_server`, one for each test process. Needs ``pip install "offsider[demo]"``."""
    from offsider.embedded import EmbeddedServer

    with EmbeddedServer(tmp_path_factory.mktemp("offsider"), persist=False) as server:
        yield server


@pytest.fixture
def offsider_server(offsider_session_server: EmbeddedServer, offsider_config: Config) -> Iterator[EmbeddedServer]:
    """A real server, empty at the start of the test; jobs are pushed to it. Its address is ``offsider_server.url``."""
    from offsider.wiring.default import set_default_config

    offsider_config.redis.url = offsider_session_server.url
    offsider_config.shared_redis().call("FLUSHALL")
    previous = set_default_config(offsider_config)
    yield offsider_session_server
    set_default_config(previous)
    offsider_config.close()


@pytest.fixture
def offsider_worker(offsider_server: EmbeddedServer, offsider_config: Config) -> Iterator[RunningWorker]:  # noqa: ARG001 - sets the url
    """A worker on `offsider_server`, in threads of the test's process: ``wait()`` until it has nothing to do."""
    from offsider.testing.running_worker import RunningWorker

    with RunningWorker(offsider_config) as worker:
        yield worker
