"""Starts, replacements and stops of a parent's workers, with fake processes."""

from __future__ import annotations

import os
import signal
import time
from itertools import count

import pytest

from offsider.cli.parent.children import EXIT_SECONDS, KILL_SECONDS, SLACK_SECONDS, Children
from offsider.cli.parent.starting import Child
from offsider.cli.parent.worker_process import Backoff
from offsider.config.settings import WorkerSection
from offsider.core.wording import described

STOP_SECONDS = 25.0


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)


class FakeLink:
    """A link to a worker that reports ready when `stop_seconds` is set."""

    def __init__(self) -> None:
        self.stop_seconds = None
        self.closed = False
        self.report = ""

    def close(self):
        pass


class FakeChild(Child):
    """A worker that records its signals."""

    def send(self, name):
        self.heard.append(name)


class FakeStarter:
    """Returns fake children with consecutive pids."""

    can_start = True

    def __init__(self):
        self.numbers = count(100)
        self.born = []

    def start(self, slot):
        child = FakeChild(slot, next(self.numbers), FakeLink(), time.monotonic())
        child.heard = []
        self.born.append((slot, child.pid))
        return child


@pytest.fixture
def starter():
    return FakeStarter()


@pytest.fixture
def children(starter):
    return Children(starter, WorkerSection(processes=2, timeout_seconds=STOP_SECONDS))


def tend(children, later=0.0):
    children.tend(time.monotonic() + later)


def start(children):
    tend(children)
    for child in children.all():
        child.link.stop_seconds = 5.0
    tend(children)
    return [slot.child for slot in children.slots]


def enlarge(children, *large):
    for child in large:
        child.memory.too_much = lambda *_: "it is large"
    assert children.check_memory(time.monotonic()) == ""


def test_every_slot_gets_a_worker(children, starter):
    tend(children)
    assert starter.born == [(0, 100), (1, 101)]
    assert children.ready == 0
    start(children)
    assert children.ready == 2
    assert list(children.due()) == []


def test_the_first_restart_is_immediate_and_the_next_one_delayed(children):
    first, _ = start(children)
    assert children.reaped(first.pid, 0)
    tend(children)
    second = children.slots[0].child
    assert second.pid == 102
    children.reaped(second.pid, signal.SIGKILL)
    tend(children)
    assert children.slots[0].child is None
    assert min(children.due()) == time.monotonic() + 1
    tend(children, later=1.1)
    assert children.slots[0].child.pid == 103


def test_the_parent_gives_up_when_every_slot_has_failed_to_start(children):
    tend(children)
    children.reaped(100, 256)
    assert not children.hopeless
    children.reaped(101, 256)
    assert children.hopeless


def test_a_job_that_kills_workers_before_they_are_ready_does_not_end_the_parent(children):
    tend(children)
    for child in children.all():
        child.link.report = "{}"
        children.reaped(child.pid, signal.SIGSEGV)
    assert not children.hopeless
    tend(children)
    for child in children.all():
        child.link.report = "{}"  # a startup hook has failed
        children.reaped(child.pid, 256)
    assert children.hopeless


def test_the_parent_keeps_trying_once_a_worker_has_run(children):
    first, second = start(children)
    for child in (first, second):
        children.reaped(child.pid, 256)
    tend(children)
    for slot in children.slots:
        children.reaped(slot.child.pid, 256)
    assert not children.hopeless


def test_a_worker_over_its_memory_limit_stops_when_its_successor_runs(children):
    large, _ = start(children)
    enlarge(children, large)
    tend(children)
    successor = children.slots[0].successor
    assert large.heard == []
    tend(children)
    successor.link.stop_seconds = 5.0
    tend(children)
    assert large.heard == ["TERM"]
    assert children.slots[0].child is successor
    assert large.kill_at == time.monotonic() + 5 + KILL_SECONDS + SLACK_SECONDS
    children.reaped(large.pid, 0)
    assert children.leaving == {}
    assert children.slots[0].child is successor


def test_only_one_worker_at_a_time_is_replaced(children, starter):
    enlarge(children, *start(children))
    tend(children)
    assert len(starter.born) == 3
    children.slots[0].successor.link.stop_seconds = 5.0
    tend(children)
    assert len(starter.born) == 4
    assert children.slots[1].successor.pid == 103


def test_a_failed_successor_is_started_again_later_and_the_old_worker_stays(children):
    large, _ = start(children)
    enlarge(children, large)
    tend(children)
    for _ in range(2):
        children.reaped(children.slots[0].successor.pid, 256)
        tend(children)
    assert children.slots[0].successor is None
    assert large.heard == []
    assert min(children.due()) > time.monotonic()
    tend(children, later=1.1)
    assert children.slots[0].successor is not None


def test_a_successor_takes_over_when_the_old_worker_dies_first(children):
    large, _ = start(children)
    enlarge(children, large)
    tend(children)
    successor = children.slots[0].successor
    children.reaped(large.pid, signal.SIGKILL)
    assert children.slots[0].child is successor
    successor.link.stop_seconds = 5.0
    tend(children)
    assert children.slots[0].successor is None
    assert successor.heard == []


def test_workers_of_the_previous_program_drain_without_a_deadline_once_successors_run(children, starter):
    old = [starter.start(slot) for slot in range(3)]
    for child in old:
        child.link.stop_seconds = 5.0
        children.adopt(child)
    assert old[2].heard == ["USR2"], "it has no slot"
    tend(children)
    assert [child.heard for child in old[:2]] == [[], []]
    for _ in range(2):
        for slot in children.slots:
            if slot.successor is not None:
                slot.successor.link.stop_seconds = 5.0
        tend(children)
    assert [child.heard for child in old] == [["USR2"]] * 3
    assert all(child.kill_at is None for child in old)
    assert set(children.leaving) == {child.pid for child in old}


def test_a_stop_reaches_all_workers_and_has_a_deadline(children, starter):
    ready, booting = start(children)
    booting.link.stop_seconds = None
    by = children.stop()
    assert ready.heard == booting.heard == ["TERM"]
    assert by == time.monotonic() + STOP_SECONDS + KILL_SECONDS
    children.reaped(ready.pid, 0)
    tend(children)
    assert children.slots[0].child is None, "no worker is started during a stop"
    tend(children, later=STOP_SECONDS + KILL_SECONDS + 1)
    tend(children, later=STOP_SECONDS + KILL_SECONDS + 1)
    assert booting.heard == ["TERM", "KILL"]
    assert children.killed == 0
    children.reaped(booting.pid, signal.SIGKILL)
    assert children.killed == 1


def test_a_worker_that_exits_just_before_its_kill_does_not_count_as_killed(children):
    first, second = start(children)
    children.stop()
    tend(children, later=60)
    children.reaped(first.pid, 0)
    children.reaped(second.pid, 256)
    assert children.killed == 0


@pytest.fixture
def reloading(starter):
    return Children(starter, WorkerSection(timeout_seconds=STOP_SECONDS, reload=True))


def test_after_a_change_of_the_source_the_successor_runs_before_the_old_worker_stops(reloading):
    (old,) = start(reloading)
    reloading.replace()
    tend(reloading)
    outdated = reloading.slots[0].successor
    reloading.replace()
    tend(reloading)
    assert (outdated.heard, old.heard) == (["TERM"], [])
    reloading.slots[0].successor.link.stop_seconds = 5.0
    tend(reloading)
    assert old.heard == ["TERM"]
    for child in (old, outdated):
        reloading.reaped(child.pid, 0)
    assert [child.pid for child in reloading.all()] == [102]
    assert reloading.may_start


def test_a_worker_that_cannot_start_is_started_again_after_the_next_change(reloading, starter, caplog):
    for number in (1, 2):
        tend(reloading)
        assert len(starter.born) == number
        reloading.reaped(reloading.slots[0].child.pid, 256)
        tend(reloading, later=60)
        assert not reloading.hopeless
        assert list(reloading.due()) == [float("inf")]
        reloading.replace()
    tend(reloading)
    reloading.replace()  # it still loads the source before the change
    tend(reloading)
    assert len(starter.born) == 4
    assert "ended with code 1; starting another one after the next change" in caplog.text


def test_a_worker_that_was_stopped_elsewhere_stays_stopped(reloading):
    (worker,) = start(reloading)
    reloading.reaped(worker.pid, 0)
    assert (reloading.may_start, reloading.status) == (False, 0)


def test_a_signal_without_a_name_is_described_by_its_number():
    assert described(35) == "was killed by signal 35"


def test_a_signal_to_a_worker_that_another_process_has_reaped_is_dropped():
    pid = os.posix_spawnp("true", ["true"], os.environ)
    os.waitpid(pid, 0)
    Child(0, pid, FakeLink(), 0.0).send("KILL")


def test_a_worker_that_has_closed_its_link_but_has_not_ended_is_killed(children, caplog):
    first, second = start(children)
    first.link.closed = True
    tend(children)
    assert min(children.due()) <= time.monotonic() + EXIT_SECONDS
    assert first.heard == []
    for _ in range(2):
        tend(children, EXIT_SECONDS)
    assert first.heard == ["KILL"]
    assert "worker 1 (process 100) was replaced by another program" in caplog.text
    assert children.reaped(first.pid, signal.SIGKILL)
    tend(children)
    assert [slot.child.pid for slot in children.slots] == [102, 101]
    assert second.heard == []


def test_nothing_starts_while_the_fork_server_is_not_ready(children, starter):
    starter.can_start = False
    tend(children)
    assert starter.born == list(children.due()) == []


def test_a_failed_start_is_repeated_at_once_and_then_later(children, starter, monkeypatch):
    monkeypatch.setattr(starter, "start", lambda slot: None)
    tend(children)
    assert children.all() == []
    assert min(children.due()) <= time.monotonic()
    tend(children)
    assert children.all() == []
    assert min(children.due()) > time.monotonic()


def test_a_worker_without_p_is_not_restarted_and_its_status_is_kept(starter, caplog):
    children = Children(starter, WorkerSection(timeout_seconds=STOP_SECONDS))
    (worker,) = start(children)
    assert children.reaped(worker.pid, signal.SIGKILL)
    tend(children)
    assert (children.all(), children.may_start, children.status) == ([], False, signal.SIGKILL)
    assert "the worker (process 100) was killed by SIGKILL" in caplog.text


def test_at_once_the_first_time_then_longer_and_longer_up_to_half_a_minute():
    backoff = Backoff()
    assert [backoff.pause_seconds(0.1) for _ in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]


def test_a_minute_of_uptime_resets_the_backoff():
    backoff = Backoff()
    pauses = [backoff.pause_seconds(lived) for lived in (0, 59, 59, 60, 0)]
    assert pauses == [0, 1, 2, 0, 1]
