"""The end of a process is seen, with a pidfd and without."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from offsider.worker.keeper.endings import Ending
from tests.waiting import wait_for


@pytest.fixture(params=["pidfd", "looking"])
def way(request, monkeypatch):
    if request.param == "looking":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    elif not hasattr(os, "pidfd_open"):
        pytest.skip("needs pidfd_open (Linux)")
    return request.param


def test_an_end_is_seen_and_stays_seen(way):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        ending = Ending(process.pid)
        assert not ending.seen()
        assert ending.must_look is (way == "looking")
        process.kill()
        if way == "looking":
            process.wait()  # a zombie still has its number
        wait_for(ending.seen)
    assert ending.seen()
    ending.close()
    assert ending.seen()
    assert not ending.must_look


def test_a_process_of_somebody_else_lives(monkeypatch):
    def refused(pid, number):
        raise PermissionError

    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.setattr(os, "kill", refused)
    assert not Ending(1).seen()


def test_a_system_that_refuses_pidfds_is_looked_at(monkeypatch):
    def refused(pid):
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", refused, raising=False)
    ending = Ending(os.getpid())
    assert ending.fd is None
    assert not ending.seen()
    assert ending.must_look
