"""Who is there, who is replaced, who has to go: with workers that are only numbers."""

from __future__ import annotations

import os
import signal
import time
from itertools import count

import pytest

from offsider.cli.supervisor.crew import KILL_SECONDS, SLACK_SECONDS, Crew, described
from offsider.cli.supervisor.nursery import Child
from offsider.worker.memory_limits import MemoryLimits, MemoryWatch

STOP_SECONDS = 25.0


class FakeTether:
    """What a worker would have told."""

    def __init__(self) -> None:
        self.stop_seconds = None

    @property
    def ready(self):
        return self.stop_seconds is not None

    def listen(self):
        return True

    def close(self):
        self.closed = True


class FakeChild(Child):
    """A worker that notes its signals."""

    def send(self, name):
        self.heard.append(name)


class FakeNursery:
    """Forks numbers."""

    def __init__(self):
        self.numbers = count(100)
        self.born = []

    def fork(self, place, siblings):
        watch = MemoryWatch(MemoryLimits(), 0)
        child = FakeChild(place, next(self.numbers), FakeTether(), time.monotonic(), watch)
        child.heard = []
        self.born.append((place, child.pid, sorted(sibling.pid for sibling in siblings)))
        return child


@pytest.fixture
def nursery():
    return FakeNursery()


@pytest.fixture
def crew(nursery):
    return Crew(nursery, 2, lambda: STOP_SECONDS)


def tend(crew, later=0.0):
    crew.tend(time.monotonic() + later)


def start(crew):
    tend(crew)
    for child in crew.everyone():
        child.tether.stop_seconds = 5.0
    tend(crew)
    return [place.child for place in crew.places]


def test_every_place_gets_a_worker_that_knows_its_siblings(crew, nursery):
    tend(crew)
    assert nursery.born == [(0, 100, []), (1, 101, [100])]
    assert crew.ready == 0
    start(crew)
    assert crew.ready == 2
    assert list(crew.due()) == []


def test_one_that_ends_is_started_again_at_once_and_then_later(crew):
    first, _ = start(crew)
    assert crew.reaped(first.pid, 0)
    tend(crew)
    second = crew.places[0].child
    assert second.pid == 102
    crew.reaped(second.pid, signal.SIGKILL)
    tend(crew)
    assert crew.places[0].child is None
    assert 0.5 < min(crew.due()) - time.monotonic() <= 1
    tend(crew, later=1.1)
    assert crew.places[0].child.pid == 103


def test_a_stranger_is_none_of_the_crew(crew):
    start(crew)
    assert not crew.reaped(99, 0)


def test_it_is_hopeless_when_each_place_has_tried_in_vain(crew):
    tend(crew)
    crew.reaped(100, 256)
    assert not crew.hopeless
    crew.reaped(101, 256)
    assert crew.hopeless


def test_it_is_not_hopeless_once_a_worker_has_run(crew):
    first, second = start(crew)
    for child in (first, second):
        crew.reaped(child.pid, 256)
    tend(crew)
    for place in crew.places:
        crew.reaped(place.child.pid, 256)
    assert not crew.hopeless


def test_one_that_is_too_large_goes_when_its_successor_runs(crew):
    large, _ = start(crew)
    crew.replace(large, "it is large")
    crew.replace(large, "it is large")
    tend(crew)
    successor = crew.places[0].successor
    assert large.heard == []
    tend(crew)
    successor.tether.stop_seconds = 5.0
    tend(crew)
    assert large.heard == ["TERM"]
    assert crew.places[0].child is successor
    assert large.kill_at - time.monotonic() == pytest.approx(5 + KILL_SECONDS + SLACK_SECONDS, abs=1)
    crew.reaped(large.pid, 0)
    assert crew.leaving == {}
    assert crew.places[0].child is successor


def test_one_at_a_time_is_replaced(crew, nursery):
    for child in start(crew):
        crew.replace(child, "both are large")
    tend(crew)
    assert len(nursery.born) == 3
    crew.places[0].successor.tether.stop_seconds = 5.0
    tend(crew)
    assert len(nursery.born) == 4
    assert crew.places[1].successor.pid == 103


def test_a_successor_that_fails_is_tried_again_later_and_the_old_one_stays(crew):
    large, _ = start(crew)
    crew.replace(large, "it is large")
    tend(crew)
    for _ in range(2):
        crew.reaped(crew.places[0].successor.pid, 256)
        tend(crew)
    assert crew.places[0].successor is None
    assert large.heard == []
    assert min(crew.due()) > time.monotonic()
    tend(crew, later=1.1)
    assert crew.places[0].successor is not None


def test_a_successor_takes_over_when_the_old_one_dies_before_it_runs(crew):
    large, _ = start(crew)
    crew.replace(large, "it is large")
    tend(crew)
    successor = crew.places[0].successor
    crew.reaped(large.pid, signal.SIGKILL)
    assert crew.places[0].child is successor
    successor.tether.stop_seconds = 5.0
    tend(crew)
    assert crew.places[0].successor is None
    assert successor.heard == []


def test_those_of_the_program_before_go_without_a_deadline_once_others_run(crew, nursery):
    old = [nursery.fork(place, []) for place in range(3)]
    for child in old:
        child.tether.stop_seconds = 5.0
        crew.adopt(child)
    assert old[2].heard == ["USR2"], "its place is no more"
    tend(crew)
    assert [child.heard for child in old[:2]] == [[], []]
    for _ in range(2):
        for place in crew.places:
            if place.successor is not None:
                place.successor.tether.stop_seconds = 5.0
        tend(crew)
    assert [child.heard for child in old] == [["USR2"]] * 3
    assert all(child.kill_at is None for child in old)
    assert set(crew.leaving) == {child.pid for child in old}


def test_a_stop_is_for_everybody_and_has_a_deadline(crew, nursery):
    ready, booting = start(crew)
    booting.tether.stop_seconds = None
    by = crew.stop()
    assert ready.heard == booting.heard == ["TERM"]
    assert by - time.monotonic() == pytest.approx(STOP_SECONDS + KILL_SECONDS, abs=1)
    crew.reaped(ready.pid, 0)
    tend(crew)
    assert crew.places[0].child is None, "none is started any more"
    tend(crew, later=STOP_SECONDS + KILL_SECONDS + 1)
    tend(crew, later=STOP_SECONDS + KILL_SECONDS + 1)
    assert booting.heard == ["TERM", "KILL"]
    assert crew.killed == 0
    crew.reaped(booting.pid, signal.SIGKILL)
    assert crew.killed == 1


def test_one_that_ends_by_itself_when_it_is_to_be_killed_has_stopped_well(crew):
    first, second = start(crew)
    crew.stop()
    tend(crew, later=60)
    crew.reaped(first.pid, 0)
    crew.reaped(second.pid, 256)
    assert crew.killed == 0


@pytest.mark.parametrize(
    "status, words",
    [
        (0, "ended with code 0"),
        (256, "ended with code 1"),
        (9, "was killed by SIGKILL"),
        (35, "was killed by signal 35"),
    ],
)
def test_how_a_process_has_ended_is_told_in_words(status, words):
    assert described(status) == words


def test_a_worker_is_signalled_by_its_number(monkeypatch):
    sent = []
    monkeypatch.setattr(os, "kill", lambda *told: sent.append(told))
    Child(0, 4711, FakeTether(), 0.0, MemoryWatch(MemoryLimits(), 0)).send("TSTP")
    assert sent == [(4711, signal.SIGTSTP)]
