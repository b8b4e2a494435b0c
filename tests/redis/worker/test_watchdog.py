"""A fetch loop that stops turning is noticed, and only then."""

from __future__ import annotations

import logging

import pytest

from offsider.worker import watchdog as watchdog_module
from offsider.worker.watchdog import FetchLoopStuck, Watchdog

PATIENCE = 36.0  # twice a pop of 0.4 liveness lives
STEP = PATIENCE / 6


class Fetcher:
    """A fetch loop that turns, or does not."""

    def __init__(self, clock: list[float]) -> None:
        self._clock = clock
        self.last_activity_at = clock[0]
        self.idle_count = 3
        self.rebuilt = 0

    def rebuild(self) -> None:
        self.rebuilt += 1

    def run_once(self) -> None:
        self.last_activity_at = self._clock[0]


class Stage:
    def __init__(self, parts, clock: list[float], *, may_end: bool = True) -> None:
        self.parts, self.clock = parts, clock
        self.fetcher = Fetcher(clock)
        self.given_up: list[str] = []
        give_up = self.given_up.append if may_end else None
        self.watchdog = Watchdog(parts.config, parts.redis, {"default": self.fetcher}, give_up)

    def pass_seconds(self, seconds: float, *, turning: bool = False) -> None:
        for _ in range(round(seconds / STEP)):
            self.clock[0] += STEP
            if turning:
                self.fetcher.run_once()
            assert self.watchdog.tick() == STEP


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    clock = [1000.0]
    monkeypatch.setattr(watchdog_module.time, "monotonic", lambda: clock[0])
    return clock


@pytest.fixture
def stage(parts, clock) -> Stage:
    return Stage(parts, clock)


def test_a_loop_that_turns_is_left_alone(stage):
    stage.pass_seconds(10 * PATIENCE, turning=True)
    assert (stage.fetcher.rebuilt, stage.watchdog.stuck(), stage.parts.errors) == (0, (), [])


def test_an_idle_fetch_loop_without_idle_threads_is_not_stuck(stage):
    """All threads are at work."""
    stage.fetcher.idle_count = 0
    stage.pass_seconds(10 * PATIENCE)
    assert stage.fetcher.rebuilt == 0


def test_a_stuck_fetch_loop_is_reported_and_gets_new_connections(stage):
    stage.pass_seconds(PATIENCE)
    assert stage.fetcher.rebuilt == 0
    stage.pass_seconds(2 * STEP)
    assert stage.fetcher.rebuilt == 1
    ((error, context),) = stage.parts.errors
    assert isinstance(error, FetchLoopStuck)
    assert "the fetch loop of capsule default is stuck: no progress for 48 s" in str(error)
    assert context == {"context": "the fetch watchdog"}
    assert stage.watchdog.stuck() == ("the fetch loop of capsule default is stuck",)


def test_new_connections_that_help_end_it(stage, caplog):
    stage.pass_seconds(PATIENCE + 2 * STEP)
    with caplog.at_level(logging.INFO, "offsider"):
        stage.pass_seconds(STEP, turning=True)
    assert "the fetch loop of capsule default has recovered" in caplog.text
    assert stage.watchdog.stuck() == ()
    stage.pass_seconds(3 * PATIENCE, turning=True)
    assert (stage.fetcher.rebuilt, stage.given_up) == (1, [])


def test_when_they_do_not_help_the_worker_stops(stage, caplog):
    stage.pass_seconds(PATIENCE + 2 * STEP)
    stage.pass_seconds(PATIENCE - STEP)
    assert stage.given_up == []
    with caplog.at_level(logging.CRITICAL, "offsider"):
        stage.pass_seconds(STEP)
    assert stage.given_up == ["the fetch loop of capsule default is stuck"]
    assert "this worker exits for a restart" in caplog.text
    assert stage.watchdog.stuck() != ()
    stage.pass_seconds(PATIENCE - STEP)
    assert len(stage.given_up) == 1


def test_inside_another_program_nothing_is_stopped(parts, clock):
    stage = Stage(parts, clock, may_end=False)
    stage.pass_seconds(PATIENCE + 2 * STEP)
    stage.pass_seconds(PATIENCE)
    assert (stage.fetcher.rebuilt, len(parts.errors)) == (2, 2)


def test_an_outage_does_not_count_as_a_stuck_loop(proxied, proxy, clock):
    stage = Stage(proxied, clock)
    proxy.refuse()
    stage.pass_seconds(5 * PATIENCE)
    assert (stage.fetcher.rebuilt, stage.watchdog.stuck()) == (0, ())
    proxy.accept()
    stage.pass_seconds(2 * STEP)
    assert stage.fetcher.rebuilt == 0, "it gets a moment to notice that the server is back"
    stage.pass_seconds(STEP)
    assert stage.fetcher.rebuilt == 1


def test_a_suspicion_ends_when_the_loop_turns(stage):
    stage.pass_seconds(PATIENCE)
    stage.pass_seconds(STEP, turning=True)
    stage.pass_seconds(PATIENCE - STEP)
    assert stage.fetcher.rebuilt == 0
