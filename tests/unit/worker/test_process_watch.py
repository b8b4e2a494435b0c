"""The end of a process is seen, with a pidfd and without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from offsider.worker.alive.keeper.process_watch import ProcessWatch, Program
from tests.waiting import wait_for

needs_maps = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="an exec is seen by /proc (Linux)")
EXEC = "import os; input(); os.execv('/bin/cat', ['cat'])"


@pytest.fixture(params=["pidfd", "looking"])
def way(request, monkeypatch):
    if request.param == "looking":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    elif not hasattr(os, "pidfd_open"):
        pytest.skip("needs pidfd_open (Linux)")
    return request.param


def test_an_end_is_seen_and_stays_seen(way):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        watch = ProcessWatch(process.pid)
        assert not watch.ended()
        assert watch.needs_polling
        process.kill()
        if way == "looking":
            process.wait()  # a zombie still has its number
        wait_for(watch.ended)
    assert watch.ended()
    watch.close()
    assert watch.ended()
    assert not watch.needs_polling


def test_a_process_of_another_user_counts_as_alive(monkeypatch):
    def refused(pid, number):
        raise PermissionError

    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.setattr(os, "kill", refused)
    assert not ProcessWatch(1).ended()


def test_a_system_without_pidfds_is_polled(monkeypatch):
    def refused(pid):
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", refused, raising=False)
    watch = ProcessWatch(os.getpid())
    assert watch.fd is None
    assert not watch.ended()
    assert watch.needs_polling


@needs_maps
def test_a_process_that_execs_another_program_has_ended(way):
    with subprocess.Popen([sys.executable, "-c", EXEC], stdin=subprocess.PIPE) as process:
        watch, program = ProcessWatch(process.pid), Program(process.pid)
        assert not watch.ended()
        assert not watch.by_exec
        assert not program.by_exec()
        process.stdin.write(b"\n")
        process.stdin.flush()
        wait_for(watch.ended)
        assert watch.by_exec
        assert program.by_exec()
        assert process.poll() is None
        process.stdin.close()
        process.wait()
        assert not watch.by_exec
        assert not program.by_exec()
    watch.close()
    program.close()


@needs_maps
def test_a_process_that_exits_by_itself_has_not_become_another_program(way):
    """It releases its memory first, which takes a while, and is a zombie only afterwards."""
    text = "import os; memory = bytearray(b'x' * 100_000_000); input(); os._exit(1)"
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE) as process:
        watch, program = ProcessWatch(process.pid), Program(process.pid)
        process.stdin.write(b"\n")
        process.stdin.flush()
        wait_for(program.replaced)
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            assert not program.by_exec()
            assert not watch.by_exec
        assert not program.by_exec()  # a zombie
        process.wait()
        assert not program.by_exec()
    program.close()
    watch.close()


@needs_maps
def test_a_surviving_forked_child_does_not_hide_the_exec():
    """It holds copies of all descriptors, and of the memory."""
    text = "import os, time; child = os.fork() or time.sleep(60); print(child, flush=True); " + EXEC
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", text], **pipes) as process:
        child = int(process.stdout.readline())
        program, of_the_child = Program(process.pid), Program(child)
        process.stdin.write(b"\n")
        process.stdin.flush()
        wait_for(program.replaced)
        assert not of_the_child.replaced()
        os.kill(child, signal.SIGKILL)
        process.stdin.close()
    program.close()
    of_the_child.close()


def test_without_proc_no_exec_is_detected(monkeypatch):
    def refused(path, flags):
        raise PermissionError

    monkeypatch.setattr(os, "open", refused)
    program = Program(os.getpid())
    assert not program.watched
    assert not program.replaced()


@needs_maps
def test_a_dead_process_is_not_watched():
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
    assert not Program(process.pid).watched
