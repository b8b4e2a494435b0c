"""What happens to a job that runs longer than it may, step by step, with a clock in the hands of the test."""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest

from offsider.core.errors import HardTimeout, SoftTimeout
from offsider.runtime.context import JobContext
from offsider.worker.run import time_limits
from offsider.worker.run.time_limits import GRACE_SECONDS, IDLE_SECONDS, STALE_ENTRIES, JobLimits, TimeLimits, limits_of
from offsider.worker.unit_of_work import UnitOfWork
from tests.waiting import wait_for


class Injection:
    """A job that gets the error at once, later, or never."""

    def __init__(self, *, lands: bool = True, aims: bool = True, can_die: bool = False) -> None:
        self.lands, self.aims, self.can_die = lands, aims, can_die
        self.aimed: list[tuple[type, str]] = []
        self.landed = lambda: None

    def aim(self, kind, message, landed):
        self.aimed.append((kind, message))
        self.landed = landed
        if self.lands:
            landed()
        return self.aims

    def kill(self, error):
        if self.can_die:
            self.aimed.append((type(error), "killed"))
        return self.can_die

    def place(self) -> str:
        return "app.py:7 in waits"


class Scene:
    """Limits whose thread does not run: the test ticks."""

    def __init__(self, config) -> None:
        self.now = 1000.0
        self.config = config
        self.limits = TimeLimits(config, lambda: self.now)
        self.limits.stop()
        self.overruns: list[tuple[str, float]] = []

    def watch(self, soft=None, hard=None, reach=None):
        job = JobContext({"class": "Slow", "args": [], "jid": "ab"}, "default", reach=reach or Injection())
        return self.limits.watch(job, JobLimits(soft, hard), self._overrun)

    def _overrun(self, error, seconds) -> None:
        assert isinstance(error, HardTimeout)
        self.overruns.append((str(error), seconds))

    def at(self, seconds: float) -> float:
        """Tick this many seconds after the start."""
        self.now = 1000.0 + seconds
        return self.limits.tick()


@pytest.fixture
def scene(config, caplog):
    caplog.set_level(logging.INFO, logger="offsider")
    return Scene(config)


SOFT = (SoftTimeout, "the job exceeded its soft limit of 5 s (soft_timeout)")
HARD = (HardTimeout, "the job exceeded its hard limit of 10 s (hard_timeout)")


def test_nothing_is_done_before_the_limit(scene):
    reach = Injection()
    scene.watch(5, 10, reach)
    assert scene.at(0) == 5
    assert scene.at(4.5) == 0.5
    assert reach.aimed == []


def test_each_limit_raises_its_error_and_finally_the_job_is_abandoned(scene, caplog):
    reach = Injection()
    watched = scene.watch(5, 10, reach)
    assert scene.at(5) == GRACE_SECONDS
    assert reach.aimed == [SOFT]
    assert scene.at(6) == 4
    assert scene.at(10) == GRACE_SECONDS
    assert reach.aimed == [SOFT, HARD]
    assert scene.overruns == []
    assert scene.at(11) == IDLE_SECONDS
    assert scene.overruns == [(HARD[1], 11.0)]
    assert not scene.limits.end(watched)
    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert "job ab (Slow) is still running at app.py:7 in waits after its hard limit of 10 s" in record.getMessage()


def test_a_process_that_still_runs_after_the_hard_limit_is_killed_and_the_worker_stays(scene, caplog):
    reach = Injection(can_die=True)
    watched = scene.watch(None, 10, reach)
    scene.at(10)
    assert scene.at(11) == IDLE_SECONDS
    assert reach.aimed[1:] == [(HardTimeout, "killed")]
    assert scene.overruns == []
    assert scene.limits.end(watched)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().endswith("its hard limit of 10 s: its process was killed")


@pytest.mark.parametrize("ends_at", [0, 4, 5.5, 10.5])
def test_a_job_that_ends_is_left_alone(scene, caplog, ends_at):
    reach = Injection()
    watched = scene.watch(5, 10, reach)
    for moment in (5, 6, 10):
        if moment < ends_at:
            scene.at(moment)
    before = list(reach.aimed)
    assert scene.limits.end(watched)
    assert scene.at(100) == IDLE_SECONDS
    assert (reach.aimed, scene.overruns, caplog.records) == (before, [], [])


def test_a_job_that_cannot_be_interrupted_is_logged_once_with_its_location(scene, caplog):
    reach = Injection(lands=False)
    watched = scene.watch(5, None, reach)
    scene.at(5)
    assert caplog.records == []
    assert scene.at(6) == IDLE_SECONDS
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "job ab (Slow) could not be interrupted at its soft limit of 5 s" in record.getMessage()
    assert "at app.py:7 in waits" in record.getMessage()
    assert reach.aimed == [SOFT]  # it is pending, and is raised when the call returns
    scene.now += 100
    assert scene.limits.end(watched)
    assert len(caplog.records) == 1


def test_a_failed_interruption_is_tried_once_more(scene):
    """The job had not entered its window yet."""
    reach = Injection(lands=False, aims=False)
    scene.watch(5, None, reach)
    scene.at(5)
    scene.at(6)
    assert reach.aimed == [SOFT, SOFT]


def test_if_no_thread_can_be_interrupted_the_reason_is_logged(scene, caplog, monkeypatch):
    monkeypatch.setattr(time_limits, "OBSTACLE", "this CPython has a fault")
    scene.watch(5, None, Injection(lands=False, aims=False))
    scene.at(5)
    scene.at(6)
    assert "of 5 s: this CPython has a fault at app.py:7 in waits" in caplog.text


def test_a_coroutine_that_blocks_its_loop_hangs_also_where_no_thread_can_be_interrupted(scene, caplog, monkeypatch):
    monkeypatch.setattr(time_limits, "OBSTACLE", "this CPython has a fault")
    scene.watch(5, None, Injection(lands=False))
    scene.at(5)
    scene.at(6)
    assert "it is in a system call or in C code at app.py:7 in waits, which Python cannot interrupt" in caplog.text


def test_a_job_that_blocked_the_interpreter_is_logged_when_it_ends(scene, caplog):
    """The thread of the limits could not run either."""
    watched = scene.watch(5, 10)
    scene.now += 8
    assert scene.limits.end(watched)
    assert [record.getMessage() for record in caplog.records] == [
        "job ab (Slow) ended 3.0 s after its time limit: Python could not interrupt it"
    ]


def test_a_job_with_a_long_cleanup_is_not_logged_again(scene, caplog):
    watched = scene.watch(5, None)
    scene.at(5)
    scene.at(6)
    scene.now += 100
    assert scene.limits.end(watched)
    assert caplog.records == []


def test_a_hard_limit_close_to_the_soft_one_does_not_wait_for_it(scene):
    reach = Injection()
    scene.watch(9.5, 10, reach)
    assert scene.at(9.5) == 0.5
    assert scene.at(10) == GRACE_SECONDS
    assert [kind for kind, _ in reach.aimed] == [SoftTimeout, HardTimeout]


def test_many_jobs_are_served_in_the_order_of_their_limits(scene):
    reaches = [Injection() for _ in range(3)]
    for reach, soft in zip(reaches, (3, 1, 2), strict=True):
        scene.watch(soft, None, reach)
    assert scene.at(1) == 1
    assert [len(reach.aimed) for reach in reaches] == [0, 1, 0]
    scene.at(3)
    assert [len(reach.aimed) for reach in reaches] == [1, 1, 1]


def test_short_jobs_with_long_limits_leave_nothing_behind(scene):
    for _ in range(5 * STALE_ENTRIES):
        scene.limits.end(scene.watch(600, 1200))
    assert len(scene.limits._due) <= STALE_ENTRIES + 3


def test_a_job_can_read_its_remaining_time(scene, monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: scene.now + 1)
    job = JobContext({"class": "Slow", "args": []}, "default")
    for limits, left in ((JobLimits(100, 200), 99), (JobLimits(None, 200), 199)):
        scene.limits.watch(job, limits, lambda error, seconds: None)
        assert job.time_left_seconds == left


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def test_the_thread_begins_with_the_first_job_and_wakes_for_an_earlier_limit(config):
    limits = TimeLimits(config)
    limits.start()
    assert "offsider-time-limits" not in names()
    job = JobContext({"class": "Slow", "args": []}, "default")
    limits.watch(job, JobLimits(600, None), lambda error, seconds: None)
    assert names().count("offsider-time-limits") == 1
    reach = Injection()
    job.reach = reach
    limits.watch(job, JobLimits(0.02, None), lambda error, seconds: None)
    wait_for(lambda: reach.aimed)
    limits.stop()
    assert limits.join(10)


@pytest.mark.parametrize(
    "payload, declared, defaults, expected",
    [
        ({}, {}, {}, None),
        ({"soft_timeout": 5}, {}, {}, JobLimits(5, None)),
        ({"hard_timeout": 5.5}, {}, {}, JobLimits(None, 5.5)),
        ({}, {"soft_timeout": timedelta(minutes=1)}, {}, JobLimits(60, None)),
        ({}, {}, {"hard_timeout": 9}, JobLimits(None, 9)),
        ({"soft_timeout": 5}, {"soft_timeout": 6, "hard_timeout": 7}, {"hard_timeout": 9}, JobLimits(5, 7)),
        ({"soft_timeout": None}, {"soft_timeout": 6}, {}, JobLimits(6, None)),
        ({"soft_timeout": None}, {}, {}, None),
        ({"hard_timeout": 5}, {"soft_timeout": 6}, {}, JobLimits(None, 5)),
        ({"soft_timeout": 0, "hard_timeout": -1}, {"soft_timeout": 6}, {}, None),
    ],
)
def test_limits_come_from_the_payload_the_declaration_and_the_configuration(
    payload, declared, defaults, expected, config
):
    config.jobs.update(defaults)
    job = JobContext({"class": "Slow", "args": [], **payload}, "default", declared=SimpleNamespace(options=declared))
    assert limits_of(job, config) == expected
    limits = TimeLimits(config)
    end = limits.enforce(job, UnitOfWork("default", b""), lambda unit, run: None)
    assert (end is None) is (expected is None)
    if end is not None:
        end()
        limits.stop()
        assert limits.join(10)
