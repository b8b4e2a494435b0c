"""Returned children are logged, and reaped once their job has ended."""

from __future__ import annotations

import os

import pytest

from offsider.core.payload import encode
from offsider.runtime import forks
from offsider.runtime.forks import Return
from offsider.worker.forked_children import Children
from offsider.worker.unit_of_work import UnitOfWork
from offsider.worker.work_state import WorkState
from tests.waiting import wait_for

JID = "a" * 24


@pytest.fixture
def work_state():
    return WorkState()


@pytest.fixture
def errors():
    return []


@pytest.fixture
def children(work_state, errors):
    made = Children(work_state, lambda error, context: errors.append(error))
    made.start()
    yield made
    made.stop()
    made.stop()
    assert made.join(10)
    assert errors == []
    assert forks._worker.returns is None


def fork(children, *, error="", jid=JID, name="Forks") -> int:
    child = os.fork()
    if child == 0:
        children._returns.tell(Return(os.getpid(), jid, name, error))
        os._exit(0)
    return child


def is_zombie(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def is_gone(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def test_nothing_runs_before_a_fork(children):
    assert not children._loop.alive


def test_a_returning_child_is_logged_and_reaped(children, caplog):
    pid = fork(children, error="ValueError")
    wait_for(lambda: is_gone(pid))
    message = f"job {JID} (Forks): a forked child (process {pid}) returned to the worker with ValueError"
    (record,) = [record for record in caplog.records if message in record.getMessage()]
    assert record.fields == {"class": "Forks", "jid": JID}


def test_a_child_of_a_handler_is_logged(children, caplog):
    pid = fork(children, jid="", name="")
    wait_for(lambda: is_gone(pid))
    assert f"handler: a forked child (process {pid}) returned to the worker and was terminated" in caplog.text


def test_a_child_that_exits_itself_is_not_an_error(children, caplog):
    pid = fork(children, error="SystemExit")
    wait_for(lambda: is_gone(pid))
    assert caplog.text == ""


def test_a_running_job_may_wait_for_its_child_itself(children, work_state, caplog):
    unit = UnitOfWork("default", encode({"class": "Forks", "jid": JID, "args": []}))
    work_state.begin("tid", unit, 0.0)
    first, second = fork(children), fork(children)
    wait_for(lambda: caplog.text.count("returned to the worker") == 2)
    for child in (first, second):  # a child reports before it ends, and a measured one saves its coverage in between
        wait_for(lambda child=child: is_zombie(child) or is_gone(child))
    looks = children._loop.ticks
    wait_for(lambda: children._loop.ticks >= looks + 3 or is_gone(first))
    assert is_zombie(first)
    assert os.waitpid(first, 0) == (first, 0)
    assert is_zombie(second)
    work_state.end("tid")
    wait_for(lambda: is_gone(second))


def test_children_of_subprocess_and_the_job_are_not_reaped(children):
    other = os.fork()
    if other == 0:
        os._exit(3)
    mine = fork(children)
    wait_for(lambda: is_gone(mine))
    assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 3


def test_without_fork_the_service_does_not_start(monkeypatch, work_state):
    monkeypatch.delattr(os, "fork")
    none = Children(work_state, lambda error, context: None)
    none.start()
    assert none.tick() is None
    none.stop()
    assert none.join()
