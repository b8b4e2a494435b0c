"""The states reported to the health endpoint, and their reasons."""

from __future__ import annotations

import time
from typing import Any

import pytest

from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings
from offsider.worker.health_state import HealthState, Report, WorkerHealth


def worker(*, told_at: float | None = None, beaten_at: float | None = -1.0, **given: Any) -> WorkerHealth:
    now = time.monotonic()
    report = Report(Lists("host:7:a", {}), **{"life_ms": 45_000, "redis": RedisSettings(), **given})
    return WorkerHealth(report, now if told_at is None else told_at, now if beaten_at == -1.0 else beaten_at)


def state(*workers: WorkerHealth, expected: int = 1) -> HealthState:
    return HealthState(expected, dict(enumerate(workers, 7)))


def test_a_worker_that_takes_jobs_is_live_and_ready():
    health = state(worker())
    assert health.live() == health.ready() == []


def test_before_the_first_worker_nothing_is_ready_but_all_is_alive():
    assert HealthState().ready() == ["0 of 1 workers claim jobs"]
    assert HealthState().live() == []


@pytest.mark.parametrize(
    "given, reason",
    [
        ({"state": "quiet"}, "worker 7 is quiet"),
        ({"state": "stopping"}, "worker 7 is stopping"),
        ({"state": "left"}, "worker 7 is exiting"),
        ({"beaten_at": None}, "worker 7: no heartbeat has reached Redis for 45 s"),
        ({"beaten_at": 0.0, "life_ms": 1}, "worker 7: no heartbeat has reached Redis for 0.001 s"),
        ({"told_at": -100.0}, "worker 7 has not reported for 45 s; a job may block its interpreter"),
    ],
)
def test_faults_that_a_restart_does_not_fix_are_live_but_not_ready(given, reason):
    health = state(worker(**given))
    assert health.ready() == [reason]
    assert health.live() == []


def test_a_part_that_is_stuck_asks_for_a_restart():
    health = state(worker(stuck=("its fetch loop stands still",)))
    assert health.live() == health.ready() == ["worker 7: its fetch loop stands still"]


def test_stopping_workers_are_ignored_while_enough_others_are_ready():
    assert state(worker(state="stopping"), worker()).ready() == []
    assert state(worker(state="stopping"), worker(), expected=3).ready() == [
        "worker 7 is stopping",
        "1 of 3 workers claim jobs",
    ]
