"""The mistakes of beginners in docs/troubleshooting.md are made here, and each one gets the messages of its row."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from inspect import signature
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from offsider import Config, Job, current_job, job
from offsider.cli.main import main
from offsider.cli.options import WorkerOptions
from offsider.cli.run_worker import check, load
from offsider.config import test_mode
from offsider.config.default import default_config, set_default_config
from offsider.inspector.findings.server_checks import BOOT_CHECKS
from offsider.inspector.server_info import ServerInfo
from offsider.jobs import registry
from offsider.web.serving import listening
from offsider.worker.boot_checks import check_boot
from tests.docs.test_troubleshooting import PAGE

ROW = re.compile(r"^\| (\d+) \| (?P<mistake>.*?) \| (?P<messages>.*?) \| (?P<fix>.*?) \|$", re.MULTILINE)
ROWS = {int(found[1]): found for found in ROW.finditer(PAGE.read_text())}
#: Between these marks is code of Python or of ours.
CODE = re.compile(r"`([^`]+)`")
MAKES: dict[int, Callable[..., Iterator[object]]] = {}


def mistake(number: int) -> Callable[[Callable[..., Iterator[object]]], None]:
    """Note a function that makes the mistake, and yields what the user reads."""

    def note(make: Callable[..., Iterator[object]]) -> None:
        MAKES[number] = make

    return note


def raised(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except (Exception, SystemExit) as error:
        return error
    raise AssertionError("there was no error")


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch, embedded_url) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(registry, "_jobs", {})
    monkeypatch.setenv("REDIS_URL", embedded_url)
    monkeypatch.setenv("OFFSIDER_CLIENT_PUSH_TIMEOUT_SECONDS", "30")  # a busy machine may need a second to connect
    modules = set(sys.modules)
    previous = set_default_config(None)
    yield
    set_default_config(previous)
    for name in set(sys.modules) - modules:
        if name.startswith("first_mistake"):
            del sys.modules[name]


@pytest.fixture
def welcome():
    @job
    def welcome(user: Any, *, language: str = "en") -> None: ...

    return welcome


def loaded(text: str) -> Config:
    """What a worker does with an application before it runs."""
    Path("first_mistake.py").write_text(text)
    return load(WorkerOptions(require=("first_mistake",)))


@contextmanager
def other_program() -> Iterator[int]:
    """The port of a program that is no Redis server. It answers one client."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"<html>\r\n")

        thread = Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def refused(url: str, monkeypatch) -> BaseException:
    """The error of a worker that starts with this URL."""
    monkeypatch.setenv("REDIS_URL", url)
    set_default_config(None)
    return raised(lambda: check(default_config()))


def offsider(*words: str) -> str:
    return CliRunner().invoke(main, words).output


@pytest.mark.parametrize("number", ROWS)
def test_a_mistake_gets_the_messages_of_its_row(number, request):
    texts = [text.replace("\\|", "|") for text in CODE.findall(ROWS[number]["messages"])]
    make = MAKES[number]
    read = [str(each) for each in make(*(request.getfixturevalue(name) for name in signature(make).parameters))]
    for text in texts:
        wanted = re.compile(".*".join(re.escape(part) for part in text.split("…")), re.DOTALL)
        assert any(wanted.search(each) for each in read), (text, read)
    assert texts or read == []


def test_the_page_has_29_groups():
    assert list(ROWS) == list(range(1, 30)) == sorted(MAKES)


@mistake(1)
def _(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    Path("sidekiq.yml").write_text("a: 1")
    yield raised(lambda: Config.load("sidekiq.yml"))


@mistake(2)
def _():
    yield raised(lambda: job("mails"))


@mistake(3)
def _():
    class Shop:
        def confirm(self): ...

    yield raised(lambda: job(Shop))
    yield raised(lambda: job(Shop.confirm))


@mistake(4)
def _():
    class Resize(Job):
        def run(self): ...

    yield raised(Resize.enqueue)


@mistake(5)
def _():
    def steps():
        yield 1

    yield raised(lambda: job(steps))


@mistake(6)
def _(welcome):
    yield raised(lambda: welcome.using(countdown=3).enqueue(1))


@mistake(7)
def _(welcome):
    yield raised(lambda: welcome.using(retry="3").enqueue(1))


@mistake(8)
def _():
    def first(): ...
    def second(): ...

    job(name="x")(first)
    yield raised(lambda: job(name="x")(second))


@mistake(9)
def _(welcome):
    for name in ("delay", "apply_async", "send"):
        yield raised(lambda name=name: getattr(welcome, name))


@mistake(10)
def _(welcome):
    yield raised(lambda: welcome.enqueue(object()))


@mistake(11)
def _(welcome):
    yield raised(lambda: welcome.enqueue((1, 2)))
    yield raised(lambda: welcome.enqueue(datetime.now(UTC)))


@mistake(12)
def _(welcome):
    yield raised(lambda: welcome.enqueue(1, 2))


@mistake(13)
def _(welcome):
    yield raised(lambda: welcome.enqueue_in(-timedelta(seconds=1), 1))
    yield raised(lambda: welcome.enqueue_at("2026-01-01", 1))


@mistake(14)
def _(welcome):
    yield raised(lambda: welcome.enqueue_at(datetime(2026, 1, 1), 1))  # noqa: DTZ001  # the mistake


@mistake(15)
def _(welcome):
    async def view() -> None:
        welcome.aenqueue(1)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(view())
    yield from (warning.message for warning in caught)


@mistake(16)
def _(welcome):
    welcome(1)
    yield from ()


@mistake(17)
def _(welcome):
    with test_mode.diverted(lambda _: None):
        yield raised(lambda: welcome.enqueue(1).get())


@mistake(18)
def _():
    yield raised(current_job)


@mistake(19)
def _():
    yield offsider("worker")
    yield offsider("worker", "-A", "app")
    yield offsider("worker", "-Q", "mails")
    yield offsider("worker", "app")


@mistake(20)
def _():
    for target in ("first_mistke", "app:app"):
        yield raised(lambda target=target: load(WorkerOptions(require=(target,))))


@mistake(21)
def _():
    yield str(raised(lambda: loaded("\n1 / 0"))).replace("first_mistake.py:2", "FILE:LINE")


@mistake(22)
def _(welcome):
    yield from stored_and_forgotten(welcome)
    yield from loaded("").warnings


@mistake(23)
def _(welcome):
    yield from stored_and_forgotten(welcome)
    yield raised(lambda: registry.find("old.name"))


def stored_and_forgotten(welcome) -> Iterator[str]:
    welcome.enqueue(1)
    registry._jobs.clear()
    yield from check_boot(default_config())


@mistake(24)
def _(capsys):
    loaded("from offsider import job\n@job\ndef greet(): ...\ngreet.enqueue()\n")
    yield capsys.readouterr().out


@mistake(25)
def _(monkeypatch):
    yield refused("redis://localhost:1", monkeypatch)
    monkeypatch.setenv("REDIS_URL", "http://localhost")
    yield raised(Config.load)
    with other_program() as port:
        yield refused(f"redis://127.0.0.1:{port}", monkeypatch)


@mistake(26)
def _(monkeypatch, make_server):
    server = make_server(kind="valkey", port=0, requirepass="secret")
    yield refused(server.url.replace("secret", "sceret"), monkeypatch)
    with other_program() as port:
        yield refused(f"rediss://127.0.0.1:{port}", monkeypatch)


@mistake(27)
def _():
    old = ServerInfo(store="redis", version_info=(6, 2, 0))
    evicting = ServerInfo(store="redis", version_info=(7, 2, 0), policy="allkeys-lru")
    for info in (old, evicting):
        yield from (found.sentence for check_one in BOOT_CHECKS for found in check_one(info))


@mistake(28)
def _():
    yield raised(lambda: setattr(Config().worker, "concurency", 3))
    yield raised(lambda: setattr(Config().worker, "queues", ["default,mails"]))


@mistake(29)
def _():
    with listening("127.0.0.1", 0) as first:
        yield raised(lambda: listening("127.0.0.1", first.getsockname()[1]))
    yield offsider("web", "--host", "0.0.0.0")
