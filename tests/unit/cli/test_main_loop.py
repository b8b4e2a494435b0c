"""The main thread acts on signals one after another."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from offsider.cli import main_loop as running_module
from offsider.cli.main_loop import MainLoop, dump, task_stacks, thread_stacks
from offsider.config.config import Config
from offsider.worker.parts import Lifecycle
from offsider.worker.unit_of_work import UnitOfWork
from offsider.worker.work_state import RunningUnit

LONG, SHORT = b'{"class":"Long","args":[],"jid":"1"}', b'{"class":"Short","args":[],"jid":"2"}'


class FakeLauncher:
    def __init__(self):
        self.config = Config()
        self.lifecycle = Lifecycle(lambda _signal: None)
        self.parts = self.work_state = self
        self.busy = 0
        self.calls = []
        self.jobs = []
        self.quieted = threading.Event()
        self.begun = threading.Event()
        self.may_stop = threading.Event()

    def quiet(self):
        self.calls.append("quiet")
        self.lifecycle.quieted = True
        self.quieted.set()

    def stop(self):
        self.calls.append("stop")
        self.begun.set()
        self.may_stop.wait(10)

    def hurry(self):
        self.begun.wait(10)
        self.calls.append("hurry")
        self.may_stop.set()

    def running(self):
        return {raw: RunningUnit(UnitOfWork("default", raw), 0.0) for raw in self.jobs.pop(0)} if self.jobs else {}

    def async_tasks(self):
        self.calls.append("dump")
        return []


class FakeLink:
    """The link to a parent, which may have died."""

    dead = False

    def fileno(self):
        return 3

    def closed(self):
        return self.dead


LINK = FakeLink()


class FakeSignals:
    """Returns scripted lists of names; a callable is an event that happens between them."""

    def __init__(self, *script):
        self.script = list(script)
        self.pauses = []
        self.failed = []

    def wait(self, timeout_seconds, also):
        self.pauses.append(timeout_seconds)
        step = self.script.pop(0) if self.script else []
        return step() or [] if callable(step) else step

    def failures(self):
        failed, self.failed = self.failed, []
        return failed

    def wake(self):
        pass


@pytest.fixture
def log(caplog):
    logger = logging.getLogger("offsider")
    logger.addHandler(caplog.handler)
    caplog.set_level(logging.DEBUG, logger="offsider")
    yield caplog
    logger.removeHandler(caplog.handler)


def test_a_life_quiet_dump_stop_and_a_dump_while_stopping(log):
    launcher = FakeLauncher()
    quiet, begun = (lambda: launcher.quieted.wait(10) and None), (lambda: launcher.begun.wait(10) and None)
    signals = FakeSignals(["TSTP"], quiet, ["TERM", "INT"], begun, ["TTIN", "USR1"], launcher.may_stop.set)
    running = MainLoop(launcher, signals, LINK)
    assert running.until_stopped() == 0
    assert launcher.calls == ["quiet", "stop", "dump"]
    assert "ignoring the signal USR1" in log.text
    assert 20 < running.seconds_left() < 25 + 4


def test_a_second_ctrl_c_stops_at_once(log):
    launcher = FakeLauncher()
    running = MainLoop(launcher, FakeSignals(["INT"], ["INT"]), LINK)
    assert running.until_stopped() == 0
    assert launcher.calls == ["stop", "hurry"]
    assert running.seconds_left() <= running_module.LAST_SECONDS
    assert "stopping at once" in log.text


def test_the_wake_after_a_stop_ends_the_loop_while_its_thread_still_runs():
    """The loop would wait for another second."""
    launcher, woken, ended = FakeLauncher(), threading.Event(), threading.Event()
    launcher.may_stop.set()
    signals = FakeSignals(["TERM"], lambda: woken.wait(10) and None, ended.set)
    signals.wake = lambda: (woken.set(), ended.wait(10))
    assert MainLoop(launcher, signals, LINK).until_stopped() == 0
    assert len(signals.pauses) <= 2
    ended.set()


def test_one_ctrl_c_during_a_stop_by_term_leaves_running_jobs_their_time():
    launcher = FakeLauncher()
    MainLoop(launcher, FakeSignals(["TERM"], ["INT"], ["TERM"], launcher.may_stop.set), LINK).until_stopped()
    assert launcher.calls == ["stop"]


def test_a_broken_worker_exits_with_its_own_code():
    """Otherwise no parent would restart it."""
    launcher = FakeLauncher()
    launcher.lifecycle.broken = "the fetch loop is stuck"
    launcher.may_stop.set()
    assert MainLoop(launcher, FakeSignals(["TERM"]), LINK).until_stopped() == 1


def test_failures_of_earlier_handlers_are_logged(log):
    launcher = FakeLauncher()
    launcher.may_stop.set()
    signals = FakeSignals(["TERM"])
    signals.failed = [("TERM", ValueError("boom"))]
    MainLoop(launcher, signals, LINK).until_stopped()
    assert "an earlier handler of TERM failed: ValueError: boom" in log.text


def test_shutdown_gets_a_grace_period_even_after_the_deadline():
    assert MainLoop(FakeLauncher(), FakeSignals(), LINK).seconds_left() == 0.1


def test_a_stop_that_hangs_is_not_waited_for(log, monkeypatch):
    monkeypatch.setattr(running_module, "LAST_SECONDS", 0.0)
    launcher = FakeLauncher()
    launcher.config.worker.timeout_seconds = 0
    assert MainLoop(launcher, FakeSignals(["TERM"]), LINK).until_stopped() == 1
    assert launcher.begun.wait(10)
    launcher.may_stop.set()
    assert "shutdown timed out" in log.text
    assert sorted(launcher.calls) == ["dump", "stop"]


def test_a_replaced_worker_ends_once_no_job_has_run_for_a_while(log):
    launcher = FakeLauncher()
    launcher.may_stop.set()
    launcher.jobs = [[LONG], [LONG], [], [SHORT], [], [], []]
    signals = FakeSignals(["USR2"])
    assert MainLoop(launcher, signals, LINK).until_stopped() == 0
    assert launcher.calls == ["quiet", "stop"]
    assert launcher.jobs == []
    assert "running now: Long jid=1" in log.text


def test_a_worker_whose_parent_has_died_stops(log, monkeypatch):
    launcher = FakeLauncher()
    launcher.may_stop.set()
    monkeypatch.setattr(LINK, "dead", True, raising=False)
    assert MainLoop(launcher, FakeSignals(), LINK).until_stopped() == 0
    assert launcher.calls == ["stop"]
    assert "the parent of this worker has died: stopping" in log.text


def test_usr2_during_a_stop_ends_it_at_once(log):
    launcher = FakeLauncher()
    assert MainLoop(launcher, FakeSignals(["TERM"], ["USR2"]), LINK).until_stopped() == 0
    assert launcher.calls == ["stop", "hurry"]
    assert "stopping at once" in log.text


def test_every_thread_is_shown_with_its_name_and_place():
    go = threading.Event()

    def waiting_here():
        go.wait(30)

    thread = threading.Thread(target=waiting_here, name="a-waiting-thread")
    thread.start()
    try:
        texts = list(thread_stacks())
    finally:
        go.set()
        thread.join()
    [text] = [text for text in texts if "a-waiting-thread" in text]
    assert "waiting_here" in text
    assert text.startswith("thread tid=")
    assert len(texts) >= 2


def test_every_task_is_shown():
    async def main():
        async def waits_here():
            await asyncio.sleep(30)

        task = asyncio.create_task(waits_here(), name="job-1")
        await asyncio.sleep(0)
        texts = list(task_stacks([task]))
        task.cancel()
        return texts

    [text] = asyncio.run(main())
    assert text.startswith("asyncio task job-1\n")
    assert "waits_here" in text


class BrokenTask:
    def get_name(self):
        return "broken"

    def get_stack(self):
        raise RuntimeError("changed")


def test_a_task_that_changes_during_the_dump_does_not_stop_it(caplog):
    logger = logging.getLogger("offsider")
    logger.addHandler(caplog.handler)
    try:
        dump([BrokenTask()])
    finally:
        logger.removeHandler(caplog.handler)
    assert "its stack cannot be shown: RuntimeError: changed" in caplog.text
