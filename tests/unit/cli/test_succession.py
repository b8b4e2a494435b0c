"""What one program of the supervisor leaves to the next."""

from __future__ import annotations

import json
import logging
import os
import signal

import pytest

from offsider.cli.options import WorkerOptions
from offsider.cli.signals import SignalQueue
from offsider.cli.supervisor import succession
from offsider.cli.supervisor.nursery import Nursery
from offsider.cli.supervisor.succession import VARIABLE, hand_over, inherited
from offsider.cli.supervisor.tether import make_tether
from offsider.wiring.config import Config


@pytest.fixture
def nursery():
    signals = SignalQueue()
    yield Nursery(WorkerOptions(), Config(), None, signals, work_as=lambda *_: 0)
    signals.close()


class Executed(Exception):
    """In place of a program that would never return."""


def test_the_next_program_finds_the_workers_and_no_signal_is_lost(nursery, monkeypatch):
    supervisors, workers = make_tether()
    workers.say_ready(7)
    supervisors.listen()
    left = {}

    def execute(program, words):
        left.update(words=words, variable=os.environ[VARIABLE], held=signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        left["tether"] = os.dup(supervisors.fileno())
        raise Executed

    monkeypatch.setattr(os, "execv", execute)
    monkeypatch.setattr(succession.sys, "orig_argv", ["python", "-m", "offsider", "worker"])
    with pytest.raises(Executed):
        hand_over([nursery.adopt(3, 4711, supervisors, 12.5)])
    assert left["words"][1:] == ["-m", "offsider", "worker"]
    assert {signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR2} <= left["held"]
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert VARIABLE not in os.environ

    (item,) = json.loads(left["variable"])
    environ = {VARIABLE: json.dumps([{**item, "tether": left["tether"]}])}
    (child,) = inherited(nursery, environ)
    assert (child.place, child.pid, child.born_at, child.tether.stop_seconds) == (3, 4711, 12.5, 7)
    assert environ == {}
    child.tether.close()
    supervisors.close()
    workers.close()


def test_the_first_program_inherits_nothing(nursery):
    assert list(inherited(nursery, {})) == []


@pytest.mark.parametrize("text", ["{", "[7]", "[{}]", '[{"tether": 9999, "stop_seconds": 1}]'])
def test_what_cannot_be_read_is_told_and_nothing_breaks(nursery, caplog, text):
    with caplog.at_level(logging.ERROR, "offsider"):
        assert list(inherited(nursery, {VARIABLE: text})) == []
    assert "are lost to this one" in caplog.text
