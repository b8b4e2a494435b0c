"""A job that no worker can import logs a warning at its first push, with the next step."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import subprocess
import sys
import types
from typing import Any

import pytest

from offsider import Config, Job, job
from offsider.client import Client
from offsider.config import test_mode
from offsider.jobs import registry
from offsider.jobs.loadable import module_name, obstacle


@pytest.fixture(autouse=True)
def no_test(monkeypatch):
    """As in a program that pytest does not run, and whose pushes reach no server."""

    async def push(*_, **__):
        return "jid"

    monkeypatch.setattr(test_mode, "is_test", lambda: False)
    for name in ("push", "push_bulk", "push_call"):
        monkeypatch.setattr(Client, name, lambda *_, **__: "jid")
        monkeypatch.setattr(Client, f"a{name}", push)
    with registry.isolated():
        yield


PUSHES = [
    lambda job: job.enqueue(),
    lambda job: job.enqueue_in(1),
    lambda job: job.enqueue_many([()]),
    lambda job: asyncio.run(job.aenqueue()),
    lambda job: asyncio.run(job.aenqueue_in(1)),
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


def test_a_lambda_warns(caplog):
    job(lambda: None).enqueue()
    assert "it is a lambda" in caplog.messages[0]


def test_a_step_of_a_workflow_warns(caplog):
    job(lambda: None).using(queue="low").item(Client(Config()), (), {})
    assert "it is a lambda" in caplog.messages[0]


def test_an_inherited_perform_is_of_its_module_and_the_class_of_the_program(monkeypatch):
    """The program under a profiler is not the module ``__main__`` in `sys.modules`."""
    program = types.ModuleType("__main__")
    program.__spec__ = importlib.util.spec_from_loader("shop.__main__", None)
    monkeypatch.setitem(sys.modules, "__main__", program)
    assert module_name("__main__", Job.perform_sync) == "shop.__main__"


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
    assert "an interactive session, a notebook, python -c or a zip archive: move it to a module" in obstacle(
        "__main__", "ping"
    )


def test_a_script_is_named_as_a_worker_loads_it(monkeypatch, tmp_path):
    script = types.ModuleType("__main__")
    path = tmp_path / "shop" / "tasks.py"
    path.parent.mkdir()
    path.touch()
    script.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "__main__", script)
    assert obstacle("tasks", "ping") == ""
    assert obstacle("tasks", "main.<locals>.ping").endswith(f"start workers with -r {path}")
    assert obstacle("other", "main.<locals>.ping").endswith("start workers with -r other")
    (path.parent / "__init__.py").touch()
    assert obstacle("shop.tasks", "main.<locals>.ping").endswith(f"start workers with -r {path}")


PUSHING = """
import multiprocessing, sys
from offsider import Client, Job, job
from offsider.config import test_mode

test_mode.is_test = lambda: False
Client.push_call = lambda self, job, *_: print(job.name, flush=True)

@job
def ping(): ...

class Pong(Job):
    def perform(self): ...

def push():
    for each in ping, Pong:
        each.enqueue()

if __name__ == "__main__":
    push()
    if sys.argv[1:] == ["spawn"]:
        process = multiprocessing.get_context("spawn").Process(target=push)
        process.start()
        process.join()
"""


@pytest.fixture
def program(tmp_path):
    """A program in a package, which prints the stored names of its jobs and logs warnings to standard error."""

    def run(*command: str, path: str = "shop/mails.py", cwd: str = ".") -> tuple[list[str], str]:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(PUSHING)
        (tmp_path / "shop").mkdir(exist_ok=True)
        (tmp_path / "shop" / "__init__.py").touch()
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path / cwd, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.split(), done.stderr

    return run


@pytest.mark.parametrize(
    "command",
    [
        (("shop/mails.py",), "."),
        (("mails.py",), "shop"),
        (("-m", "shop.mails"), "."),
        (("-m", "cProfile", "-o", "profile", "shop/mails.py"), "."),
        (("shop/mails.py", "spawn"), "."),
        (("-m", "shop.mails", "spawn"), "."),
        (("-c", "import shop.mails; shop.mails.push()"), "."),
    ],
    ids=str,
)
def test_a_program_stores_the_name_that_a_worker_imports(program, command):
    words, cwd = command
    names, warnings = program(*words, cwd=cwd)
    assert set(names) == {"shop.mails.ping", "shop.mails.Pong"}
    assert len(names) == (4 if "spawn" in words else 2)
    assert warnings == ""


@pytest.mark.parametrize(
    "words, path, reason",
    [
        (("-c", PUSHING), "shop/mails.py", "it is declared in an interactive session, a notebook, python -c"),
        (("app",), "app/__main__.py", "it is declared in an interactive session, a notebook, python -c or a zip"),
        (("bin/mails",), "bin/mails", "workers load only files that end in .py, and it is declared in "),
    ],
    ids=["-c", "folder", "without .py"],
)
def test_a_program_that_no_worker_can_import_warns_at_its_first_push(program, words, path, reason):
    _, warnings = program(*words, path=path)
    assert warnings.count(reason) == 2


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
