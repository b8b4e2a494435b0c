"""A job that no worker can import logs a warning at its first push, with the next step."""

from __future__ import annotations

import asyncio
import importlib
import sys
import types
from typing import Any

import pytest

from offsider import Job, job
from offsider.client import Client
from offsider.client.asynchronous import AsyncClient
from offsider.config import test_mode
from offsider.jobs import registry
from offsider.jobs.loadable import obstacle


@pytest.fixture(autouse=True)
def no_test(monkeypatch):
    """As in a program that pytest does not run, and whose pushes reach no server."""

    async def push(*_, **__):
        return "jid"

    monkeypatch.setattr(test_mode, "is_test", lambda: False)
    for name in ("push", "push_bulk"):
        monkeypatch.setattr(Client, name, lambda *_, **__: "jid")
        monkeypatch.setattr(AsyncClient, name, push)
    with registry.isolated():
        yield


PUSHES = [
    lambda job: job.enqueue(),
    lambda job: job.enqueue_in(1),
    lambda job: job.enqueue_many([()]),
    lambda job: asyncio.run(job.aenqueue()),
    lambda job: asyncio.run(job.aenqueue_many([()])),
]


@pytest.mark.parametrize("push", PUSHES)
def test_a_job_inside_of_a_function_warns_once_at_its_first_push(caplog, push):
    @job
    def inner() -> None: ...

    assert caplog.messages == []
    push(inner)
    push(inner)
    (warning,) = caplog.messages
    assert "workers may not find job tests.unit.jobs.test_loadable.test_a_job_inside_of_a_function" in warning
    assert "define it with def at the top level, and start workers with -r tests.unit.jobs.test_loadable" in warning


def test_a_class_inside_of_a_function_warns_too(caplog):
    class Inner(Job):
        def perform(self) -> None: ...

    Inner.enqueue()
    assert len(caplog.messages) == 1


def test_a_lambda_warns(caplog):
    job(lambda: None).enqueue()
    assert "it is a lambda" in caplog.messages[0]


def test_an_explicit_name_ends_the_warning(caplog):
    @job(name="shop.ping")
    def ping() -> None: ...

    ping.enqueue()
    assert caplog.messages == []


def test_a_test_is_not_warned_and_later_pushes_are(caplog, monkeypatch):
    @job
    def ping() -> None: ...

    with test_mode.diverted(lambda jobs: None):
        ping.enqueue()
    with monkeypatch.context() as patch:
        patch.setattr(test_mode, "is_test", lambda: True)
        ping.enqueue()
    assert caplog.messages == []
    ping.enqueue()
    assert len(caplog.messages) == 1


def test_an_interactive_session_has_its_own_advice():
    assert "an interactive session, a notebook or python -c: move it to a module" in obstacle("__main__", "ping")


def test_a_script_is_named_as_a_worker_loads_it(monkeypatch):
    script = types.ModuleType("__main__")
    script.__file__ = "/srv/shop/tasks.py"
    monkeypatch.setitem(sys.modules, "__main__", script)
    assert obstacle("tasks", "ping") == ""
    assert obstacle("tasks", "main.<locals>.ping").endswith("start workers with -r /srv/shop/tasks.py")
    assert obstacle("other", "main.<locals>.ping").endswith("start workers with -r other")


def test_jobs_declared_by_a_function_during_an_import_are_loadable(tmp_path, monkeypatch):
    source = """
from offsider import job

def make():
    @job
    def ping(): ...
    return ping

found = make()
"""
    (tmp_path / "shop_with_a_factory.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.import_module("shop_with_a_factory").found.declared.obstacle == ""
    script: dict[str, Any] = {"__name__": "shop"}
    exec(source, script)
    assert "defined inside of a function" in script["found"].declared.obstacle
