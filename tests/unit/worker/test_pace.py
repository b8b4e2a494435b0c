"""How far to fetch ahead follows what was finished lately, and forgets quickly."""

import pytest

from offsider.worker.pace import AHEAD_SECONDS, MEMORY_SECONDS, MOST, Pace


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def finish(pace: Pace, clock: Clock, per_second: float, seconds: float = 0.1) -> None:
    """Jobs of one rate, noted each millisecond."""
    for _ in range(int(seconds * 1000)):
        clock.seconds += 0.001
        pace.note(per_second / 1000)  # type: ignore[arg-type]


def test_at_first_nothing_is_fetched_ahead(clock):
    assert Pace(clock).ahead == 0


@pytest.mark.parametrize("per_second, ahead", [(10, 0), (499, 0), (1000, 2), (5000, 10), (20_000, 40), (500_000, MOST)])
def test_two_milliseconds_worth_of_what_was_finished_lately(clock, per_second, ahead):
    pace = Pace(clock)
    finish(pace, clock, per_second)
    assert pace.ahead == pytest.approx(ahead, abs=1)
    assert AHEAD_SECONDS == 0.002


def test_slow_jobs_are_never_fetched_ahead(clock):
    """Ten threads with jobs of 25 ms: 400 a second."""
    pace = Pace(clock)
    finish(pace, clock, 400, seconds=1)
    assert pace.ahead == 0


def test_a_rest_is_noticed_within_a_few_milliseconds(clock):
    pace = Pace(clock)
    finish(pace, clock, 20_000)
    clock.seconds += 5 * MEMORY_SECONDS
    pace.note(1)
    assert pace.ahead == 0


def test_a_burst_in_no_time_is_no_infinite_rate(clock):
    pace = Pace(clock)
    pace.note(100)
    pace.note(100)
    assert pace.ahead <= MOST
