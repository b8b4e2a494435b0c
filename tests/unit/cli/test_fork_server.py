"""The parent's end of the fork server, and the threads that prevent a fork."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from offsider.cli import forks as threads
from offsider.cli.forks import other_threads
from offsider.cli.parent.fork_server import ForkServer


@pytest.fixture
def another():
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="metrics")
    thread.start()
    yield thread
    done.set()
    thread.join()


@pytest.mark.parametrize("tasks", [threads.TASKS, Path("/nowhere")], ids=["kernel", "python"])
def test_threads_are_named(another, tasks, monkeypatch):
    monkeypatch.setattr(threads, "TASKS", tasks)
    assert "metrics" in other_threads()


def test_a_process_with_one_thread_may_fork(monkeypatch, tmp_path):
    (tmp_path / str(threading.get_native_id())).mkdir()
    monkeypatch.setattr(threads, "TASKS", tmp_path)
    assert other_threads() == []


def test_threads_unknown_to_python_have_their_system_names(monkeypatch, tmp_path):
    for number, comm in (("1", "blas\n"), ("2", None)):
        (tmp_path / number).mkdir()
        if comm:
            (tmp_path / number / "comm").write_text(comm)
    monkeypatch.setattr(threads, "TASKS", tmp_path)
    assert other_threads() == ["blas (not Python's)", "thread 2"]


def test_exits_that_arrive_with_the_reply_to_a_start_are_handled_when_its_worker_is_known():
    exited = []
    server = ForkServer(lambda pid, status: exited.append((pid, status)))
    ours, theirs = socket.socketpair()
    worker, other = socket.socketpair()
    with ours, theirs, worker, other:
        server.started(1, ours)
        theirs.sendall(b'{"exited": [7, 9]}\n{"started": 10}\n{"exited": [8, 9]}\n{"exited": [10, 9]}\n')
        assert server.start(worker) == 10
        assert exited == []
        assert theirs.recv(1000) == b'{"start": true}\n'
        for _ in range(2):
            server.listen()
        assert exited == [(7, 9), (8, 9), (10, 9)]
        assert theirs.recv(1000) == b'{"reap": 7}\n{"reap": 8}\n{"reap": 10}\n'


def test_a_server_that_cannot_fork_is_kept_and_asked_again():
    server = ForkServer(lambda pid, status: None)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server.started(1, ours)
        for pid in (0, 10):
            theirs.sendall(b'{"started": %d}\n' % pid)
            assert server.start(theirs) == pid
