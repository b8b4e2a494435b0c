"""What one program of the supervisor leaves to the next."""

from __future__ import annotations

import json
import logging
import os
import signal

import pytest

from offsider.cli.options import WorkerOptions
from offsider.cli.signals import SignalQueue
from offsider.cli.supervisor import fork as reexec
from offsider.cli.supervisor.fork import VARIABLE, Forker, exec_supervisor, inherited, make_parent_link
from offsider.config.config import Config


@pytest.fixture
def forker():
    signals = SignalQueue()
    yield Forker(WorkerOptions(), Config(), None, signals, work_as=lambda *_: 0)
    signals.close()


class Executed(Exception):
    """In place of a program that would never return."""


def test_the_next_program_finds_the_workers_and_no_signal_is_lost(forker, monkeypatch):
    supervisors, workers = make_parent_link()
    workers.say_ready(7)
    supervisors.listen()
    left = {}

    def execute(program, words):
        left.update(words=words, variable=os.environ[VARIABLE], held=signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        left["parent_link"] = os.dup(supervisors.fileno())
        raise Executed

    monkeypatch.setattr(os, "execv", execute)
    monkeypatch.setattr(reexec.sys, "orig_argv", ["python", "-m", "offsider", "worker"])
    with pytest.raises(Executed):
        exec_supervisor([forker.adopt(3, 4711, supervisors, 12.5)])
    assert left["words"][1:] == ["-m", "offsider", "worker"]
    assert {signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR2} <= left["held"]
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert VARIABLE not in os.environ

    (item,) = json.loads(left["variable"])
    environ = {VARIABLE: json.dumps([{**item, "parent_link": left["parent_link"]}])}
    (child,) = inherited(forker, environ)
    assert (child.slot, child.pid, child.born_at, child.parent_link.stop_seconds) == (3, 4711, 12.5, 7)
    assert environ == {}
    child.parent_link.close()
    supervisors.close()
    workers.close()


def test_the_first_process_inherits_nothing(forker):
    assert list(inherited(forker, {})) == []


@pytest.mark.parametrize("text", ["{", "[7]", "[{}]", '[{"parent_link": 9999, "stop_seconds": 1}]'])
def test_unreadable_state_is_reported_and_ignored(forker, caplog, text):
    with caplog.at_level(logging.ERROR, "offsider"):
        assert list(inherited(forker, {VARIABLE: text})) == []
    assert "cannot adopt the workers of the previous supervisor" in caplog.text
