"""The pytest plugin: fixtures for applications with jobs. Imports are deferred, so that loading it is fast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import offsider
from offsider import testing

if TYPE_CHECKING:
    from offsider.embedded import EmbeddedServer


@pytest.fixture
def offsider_fake() -> Iterator[testing.Recorder]:
    """Record every push in memory: ``jobs``, ``drain()`` and more; for `assert_enqueued`. No Redis."""
    with testing.fake() as recorder:
        yield recorder


@pytest.fixture
def offsider_inline() -> Iterator[None]:
    """Run every job at its push. No Redis."""
    with testing.inline():
        yield


@pytest.fixture
def offsider_clock() -> Iterator[testing.FakeClock]:
    """A clock that changes only with ``advance(seconds)``; it also sets the times in enqueued jobs."""
    with testing.FakeClock().installed() as clock:
        yield clock


@pytest.fixture
def offsider_config() -> offsider.Config:
    """The configuration for `offsider_server` and `offsider_worker`: as the application configures this process, with
    its middleware and extensions. Override it in a conftest.py if the worker needs more.
    """
    from offsider.config.default import application_config

    return application_config()


@pytest.fixture
def offsider_server(offsider_config: offsider.Config) -> Iterator[EmbeddedServer]:
    """A real server, empty at the start of the test, that receives all pushes. Its URL is ``offsider_server.url``.

    One per test process. Needs ``pip install "offsider[demo]"``.
    """
    from offsider.testing.running_worker import embedded_server, real_server

    with real_server(offsider_config):
        yield embedded_server()


@pytest.fixture
def offsider_worker(
    offsider_server: EmbeddedServer,  # noqa: ARG001  # sets the URL
    offsider_config: offsider.Config,
) -> Iterator[testing.RunningWorker]:
    """A worker on `offsider_server`, in threads of the test process: ``wait()`` until it is idle."""
    with testing.RunningWorker(offsider_config) as worker:
        yield worker
