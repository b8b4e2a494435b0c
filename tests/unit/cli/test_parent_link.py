"""What ties a worker to its supervisor."""

from __future__ import annotations

import os
import signal
import time

import pytest

from offsider.cli.supervisor import fork as parent_link
from offsider.cli.supervisor.fork import ParentLink, make_parent_link
from tests.waiting import wait_for


@pytest.fixture
def ends():
    both = make_parent_link()
    yield both
    for end in both:
        end.close()


def test_a_worker_reports_once_that_it_runs_and_its_stop_timeout(ends):
    supervisors, workers = ends
    assert supervisors.listen()
    assert not supervisors.ready
    workers.say_ready(7.5)
    assert supervisors.listen()
    assert supervisors.ready
    assert supervisors.stop_seconds == 7.5
    workers.close()
    assert not supervisors.listen()
    assert supervisors.ready


def test_invalid_messages_of_a_worker_are_ignored(ends):
    supervisors, workers = ends
    workers._end.sendall(b"ready soon\n")
    assert supervisors.listen()
    assert not supervisors.ready


def test_a_dead_supervisor_does_not_break_a_starting_worker(ends):
    supervisors, workers = ends
    supervisors.close()
    workers.say_ready(1)


def test_an_end_may_be_left_to_the_next_program(ends):
    supervisors, workers = ends
    number = supervisors.bequeath()
    assert os.get_inheritable(number)
    heir = ParentLink.inherit(os.dup(number), None)
    assert not os.get_inheritable(heir.fileno())
    workers.say_ready(2)
    heir.listen()
    assert heir.stop_seconds == 2
    heir.close()


@pytest.mark.parametrize("way", ["kernel", "sockets"])
def test_a_worker_gets_a_term_when_its_supervisor_dies(way, monkeypatch):
    if way == "sockets":
        monkeypatch.setattr(parent_link, "_set_death_signal", lambda: False)
    reading, writing = os.pipe()
    supervisor = os.fork()
    if supervisor == 0:
        os.close(reading)
        _supervise(writing)
    os.close(writing)
    assert os.read(reading, 100) == b"tied"
    os.kill(supervisor, signal.SIGKILL)
    os.waitpid(supervisor, 0)
    assert wait_for(lambda: os.read(reading, 100), 10) == b"terminated"
    os.close(reading)


def _supervise(writing: int) -> None:
    _, workers = ends = make_parent_link()
    if os.fork() == 0:
        ends[0].close()
        signal.signal(signal.SIGTERM, lambda *_: (os.write(writing, b"terminated"), os._exit(0)))
        workers.tie()
        os.write(writing, b"tied")
        time.sleep(20)
        os._exit(1)
    workers.close()
    time.sleep(20)
    os._exit(1)


def test_a_supervisor_that_died_before_the_worker_was_tied_is_noticed(monkeypatch):
    heard = []
    monkeypatch.setattr(os, "kill", lambda *reported: heard.append(reported))
    monkeypatch.setattr(parent_link, "_set_death_signal", lambda: True)
    monkeypatch.setattr(os, "getppid", lambda: 1)
    supervisors, workers = make_parent_link()
    workers.tie()
    assert heard == [(os.getpid(), signal.SIGTERM)]
    supervisors.close()
    workers.close()
