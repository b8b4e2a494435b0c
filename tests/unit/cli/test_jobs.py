"""The jobs of the demo, one by one."""

import asyncio
import os
import signal
import threading
from contextlib import nullcontext

import pytest

from offsider import JobContext
from offsider.cli.demo import jobs
from offsider.cli.demo.ledger import FILE
from offsider.client import Client
from offsider.config import test_mode
from offsider.config.config import Config
from offsider.config.default import set_default_config
from offsider.runtime.context import running
from offsider.runtime.middleware import MiddlewareChain


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    jobs.ledger.cache_clear()
    before = set_default_config(Config())
    yield tmp_path
    set_default_config(before)
    jobs.ledger.cache_clear()


@pytest.fixture
def pushes():
    stored = []
    with test_mode.diverted(stored.extend):
        yield stored


def context(**payload) -> JobContext:
    return JobContext({"class": "some_job", "args": [], "jid": "j", **payload}, "orders")


def words(folder) -> list[str]:
    return [line.split()[0] for line in (folder / FILE).read_text().splitlines()]


def test_the_jobs_of_an_order_are_pushed_and_recorded(folder, pushes):
    jobs.push_order(Client(Config()), jobs.ledger(), 7)

    names = [push.payload["class"] for push in pushes]
    assert names == ["confirm_order"] * jobs.ITEMS + ["print_label", "write_report"]
    assert words(folder) == ["pushed"] * len(names)


def test_a_confirmed_order_is_checked_and_then_charged(folder, pushes):
    jobs.confirm_order(1, 2)
    asyncio.run(jobs.check_stock(1, 2))

    assert [push.payload["class"] for push in pushes] == ["check_stock", "charge_card"]
    assert words(folder) == ["pushed"] * 2


def test_a_card_fails_at_most_once():
    with running(context()), pytest.raises(ConnectionError):
        jobs.charge_card(3, 2)
    with running(context()):
        jobs.charge_card(3, 1)
    with running(context(retry_count=0)):
        jobs.charge_card(3, 2)


def test_every_eighth_label_always_fails():
    jobs.print_label(1)
    with pytest.raises(LookupError):
        jobs.print_label(8)
    assert jobs.soon(0, LookupError(), context().payload) > 0


def test_a_report_sleeps_for_its_duration(monkeypatch):
    slept = []
    monkeypatch.setattr(jobs.time, "sleep", slept.append)
    jobs.write_report(1)
    assert slept == [jobs.REPORT_SECONDS]


@pytest.mark.parametrize("error, outcome", [(None, "done"), (ValueError, "failed")])
def test_the_ledger_records_every_run(folder, error, outcome):
    def perform(_job):
        if error is not None:
            raise error

    with nullcontext() if error is None else pytest.raises(error):
        MiddlewareChain([jobs.record_run]).run(context(), perform)
    assert words(folder) == ["began", outcome]


def test_a_process_of_the_demo_ends_when_its_stdin_closes(monkeypatch):
    reader, writer = os.pipe()
    read, sent, ended = os.read, [], threading.Event()
    monkeypatch.setattr(os, "read", lambda _, size: read(reader, size))
    monkeypatch.setattr(os, "kill", lambda *words: (sent.append(words), ended.set()))
    config = Config()
    jobs.configure(config)
    assert jobs.record_run in config.server_middleware
    assert not ended.wait(0.05)

    os.close(writer)

    assert ended.wait(10)
    assert sent == [(os.getpid(), signal.SIGTERM)]
    os.close(reader)
