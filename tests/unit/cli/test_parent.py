"""What the parent's loop does with fork servers and workers that answer oddly."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time

import pytest

from offsider.cli.options import WorkerOptions
from offsider.cli.parent import Parent
from offsider.cli.parent.reexec import Inherited
from offsider.cli.parent.starting import Starter
from offsider.config.config import Config
from offsider.worker.alive.parent_link import make_link

NO_PROCESS = 2**22 + 1  # above the highest pid


@pytest.fixture
def parent(monkeypatch):
    def wait(seconds):
        pytest.fail(f"it waits for {seconds} s")

    config = Config()
    config.worker.processes = 2
    parent = Parent(WorkerOptions(), config)
    monkeypatch.setattr(parent, "_wait", wait)
    return parent


def test_workers_that_die_at_once_are_known_to_have_ended_before_the_parent_sleeps(parent):
    ours, theirs = socket.socketpair()

    def serve():
        for number in (1, 2):
            _, (descriptor,), *_ = socket.recv_fds(theirs, 1000, 1)
            socket.close(descriptor)
            pid = NO_PROCESS + number
            theirs.sendall(b'{"started": %d}\n{"exited": [%d, 9]}\n' % (pid, pid))

    with ours, theirs:
        parent._server.started(NO_PROCESS, ours)
        theirs.sendall(b'{"loaded": []}\n')
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        parent._supervise()
        server.join()
    assert parent._workers.hopeless, "both have failed to start, so the parent has ended"


@pytest.mark.parametrize(
    "report, identity",
    [
        ("", None),
        (json.dumps({"life_ms": 9000, "redis": {}}), None),
        (
            json.dumps(
                {"lists": ["host:1:a", {}], "life_ms": 9000, "redis": {"more": 1}, "stop_seconds": 7, "more": 1}
            ),
            "host:1:a",
        ),
    ],
    ids=["no report", "unreadable", "another version's"],
)
def test_workers_of_another_version_are_adopted_and_their_reports_read(parent, report, identity):
    link, end = make_link()
    with end:
        parent._adopt(Inherited(0, NO_PROCESS, os.dup(link.bequeath()), 1.0, report))
        (child,) = parent._workers.all()
        assert (child.pid, child.ready, child.link.report) == (NO_PROCESS, bool(identity), report if identity else "")
        health = parent._rescuer.health.workers.get(NO_PROCESS)
        assert (health and health.report.lists.identity) == identity
        child.link.close()
        link.close()


def test_a_fork_that_the_system_refuses_is_logged_and_tried_again_later(parent, monkeypatch, caplog):
    monkeypatch.setattr(os, "fork", lambda: (_ for _ in ()).throw(BlockingIOError(11, "no more processes")))
    assert Starter(WorkerOptions(), None, lambda: None).start(0) is None
    server, pauses, now = parent._server, [], time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for _ in range(3):
        parent._starter.tend(server.start_at or now)
        pauses.append(round(server.start_at - now))
    assert pauses == [0, 1, 2]
    assert caplog.messages == ["cannot fork a process, trying again: [Errno 11] no more processes"] * 4


def test_the_successor_of_a_forked_worker_is_a_new_program(monkeypatch):
    """It would mix the modules of its parent with those of a release that was deployed since."""
    monkeypatch.setattr(os, "fork", lambda: 4711)
    monkeypatch.setattr(os, "posix_spawnp", lambda *_, **__: 4712)
    starter = Starter(WorkerOptions(), None, lambda: None)
    for pid in (4711, 4712, 4712):
        child = starter.start(0)
        assert child.pid == pid
        child.link.close()


def test_a_worker_whose_program_is_missing_is_not_started_and_the_reason_logged(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(sys, "platform", "darwin")  # every worker is a new program
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "offsider", "worker"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "removed"))
    starter = Starter(WorkerOptions(), None, lambda: None)
    assert starter.start(0) is None
    (line,) = caplog.messages
    assert line.startswith("cannot execute a worker, trying again: [Errno 2]")
    assert str(tmp_path / "removed") in line
