"""Running jobs that the heartbeat shows."""

from __future__ import annotations

import json

import pytest

from offsider.testing import FakeClock
from offsider.worker.run_account import Ended
from offsider.worker.work_state import WINDOW_SECONDS, Rates, WorkState
from tests.started_unit import started_unit


def test_running_jobs_are_shown_as_sidekiq_shows_them():
    state = WorkState()
    unit, started_at = started_unit("low", b'{"class":"X"}', 1_795_216_780.9)
    state.begin("tid0", unit, started_at - 1)
    state.begin("tid1", unit, started_at)
    state.begin("tid2", *started_unit("high", b"\xff no job", 1.0))
    assert state.busy == 2
    shown = {tid: work.as_sidekiq_shows() for tid, work in state.running().items()}
    assert shown["tid1"] == '{"queue":"low","payload":"{\\"class\\":\\"X\\"}","run_at":1795216780}'
    assert json.loads(shown["tid2"])["payload"] == "\ufffd no job"
    state.end(unit)
    state.end(unit)
    assert list(state.running()) == ["tid2"]


def test_the_durations_of_running_jobs_are_available():
    state = WorkState()
    state.begin("tid1", *started_unit("low", b"{}", 100.0))
    state.begin("tid2", *started_unit("low", b"{}", 104.5))
    state.begin("tid3", *started_unit("low", b"{}", 200.0))  # the clock was set back since
    assert state.under_way_seconds(105.0) == 5.5


IDLE, STEADY = (1.0, 0, 0), (1.0, 430, 21)
RATES = {
    "before the first run": ([], (0, 0)),
    "steady": ([STEADY] * 20, (430, 21)),
    "the average of the window": ([STEADY] * 20 + [(1.0, 930, 21)], (430 + 500 / WINDOW_SECONDS, 21)),
    "intervals of unequal length": ([(0.5, 200, 0), (1.5, 600, 0)], (400, 0)),
    "a burst is not averaged with the idle time before it": ([IDLE] * 20 + [(1.0, 300, 0)], (300, 0)),
    "nothing was run for a window": ([(1.0, 300, 3)] + [IDLE] * int(WINDOW_SECONDS), (0, 0)),
}


@pytest.mark.parametrize("intervals, per_second", RATES.values(), ids=RATES)
def test_the_rate_after_intervals_with_their_runs(intervals, per_second):
    """Each interval has its seconds, processed and failed runs."""
    clock, ended = FakeClock(), Ended()
    rates = Rates(clock.monotonic)
    for seconds, processed, failed in intervals:
        clock.advance(seconds)
        ended = ended.plus(finished=processed - failed, failed=failed)
        rates.note(ended)
    assert rates.per_second() == per_second
