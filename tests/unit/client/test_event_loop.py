"""A blocking push on an event loop warns once for each place, in development."""

from __future__ import annotations

import asyncio

import pytest

from offsider import Config
from offsider.client import client
from offsider.client.client import warn_on_event_loop
from offsider.config import test_mode


@pytest.fixture(autouse=True)
def no_test(monkeypatch):
    """As in a program that pytest does not run."""
    monkeypatch.setattr(test_mode, "is_test", lambda: False)
    monkeypatch.setattr(client, "_warned", set())


def push_on_loop(config: Config, times: int = 1) -> None:
    async def view() -> None:
        for _ in range(times):
            warn_on_event_loop(config)

    asyncio.run(view())


def test_it_names_the_place_and_aenqueue_once(caplog):
    push_on_loop(Config(), times=3)
    (warning,) = caplog.messages
    line = push_on_loop.__code__.co_firstlineno + 3
    assert f"test_event_loop.py:{line} pushes a job on a running event loop" in warning
    assert "aenqueue" in warning


def test_without_a_loop_there_is_no_warning(caplog):
    warn_on_event_loop(Config())
    assert caplog.messages == []


def test_in_other_environments_there_is_no_warning(caplog):
    config = Config()
    config.worker.environment = "production"
    push_on_loop(config)
    assert caplog.messages == []


def test_a_test_is_not_warned(caplog, monkeypatch):
    with test_mode.diverted(lambda jobs: None):
        push_on_loop(Config())
    monkeypatch.setattr(test_mode, "is_test", lambda: True)
    push_on_loop(Config())
    assert caplog.messages == []
