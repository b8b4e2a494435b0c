"""The prefetch size follows the recent throughput and forgets quickly."""

import pytest

from offsider.testing import FakeClock
from offsider.worker.fetch.line import AHEAD_SECONDS, MAX_BYTES, MAX_NEAR, PrefetchSize


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def finish(pace: PrefetchSize, clock: FakeClock, per_second: float, seconds: float = 0.1) -> None:
    """Jobs of one rate, noted each millisecond."""
    for _ in range(int(seconds * 1000)):
        clock.advance(0.001)
        pace.note(per_second / 1000)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "per_second, ahead", [(10, 0), (199, 0), (1000, 5), (5000, 25), (15_000, 75), (500_000, MAX_NEAR)]
)
def test_the_prefetch_covers_five_milliseconds_at_the_recent_rate(clock, per_second, ahead):
    pace = PrefetchSize(clock=clock.monotonic)
    finish(pace, clock, per_second)
    assert pace.ahead == pytest.approx(ahead, abs=1)
    assert AHEAD_SECONDS == 0.005


@pytest.mark.parametrize("payload_bytes, ahead", [(1_000, MAX_NEAR), (100_000, 80), (1_000_000, 8), (10_000_000, 0)])
def test_prefetched_payloads_have_a_maximum_size(clock, payload_bytes, ahead):
    pace = PrefetchSize(clock=clock.monotonic)
    finish(pace, clock, 500_000)
    pace.note_payloads(10 * payload_bytes, 10)
    assert pace.ahead == ahead
    assert ahead * payload_bytes <= MAX_BYTES or ahead == MAX_NEAR


def test_after_large_payloads_the_prefetch_grows_with_each_claim_of_small_ones(clock):
    pace = PrefetchSize(clock=clock.monotonic)
    finish(pace, clock, 500_000)
    pace.note_payloads(1_000_000, 1)
    sizes = []
    for _ in range(5):
        pace.note_payloads(1_000, 10)
        sizes.append(pace.ahead)
    assert sizes == [15, 31, 63, MAX_NEAR, MAX_NEAR]


def distant(clock: FakeClock, round_trip_seconds: float, *, share: float = 1.0) -> PrefetchSize:
    pace = PrefetchSize(share, clock.monotonic)
    pace.note_round_trip(round_trip_seconds, 1)
    return pace


@pytest.mark.parametrize("round_trip_ms, ahead", [(0.05, 51), (0.5, 60), (1, 70), (5, 150)])
def test_for_a_distant_server_the_prefetch_covers_two_round_trips_as_well(clock, round_trip_ms, ahead):
    pace = distant(clock, round_trip_ms / 1000)
    finish(pace, clock, 10_000)
    assert pace.ahead == pytest.approx(ahead, abs=1)


@pytest.mark.parametrize("round_trip_ms, most", [(0.19, 100), (0.21, 500), (5, 500)])
def test_prefetch_stays_within_the_documented_limit(clock, round_trip_ms, most):
    pace = distant(clock, round_trip_ms / 1000)
    finish(pace, clock, 1_000_000)
    assert pace.ahead == most


def test_capsules_of_a_process_share_its_prefetch_limit(clock):
    near, far = PrefetchSize(0.25, clock.monotonic), distant(clock, 0.005, share=0.75)
    for pace in (near, far):
        finish(pace, clock, 1_000_000)
    assert (near.ahead, far.ahead) == (25, 375)


def test_jobs_that_arrive_late_from_a_distant_server_are_not_requeued_for_their_age(clock):
    """The ticker requeues jobs that wait for 20 ms, so no more are fetched than threads finish in 15."""
    pace = distant(clock, 0.1)
    finish(pace, clock, 10_000)
    assert pace.ahead == pytest.approx(150, abs=1)


def rounds(pace: PrefetchSize, clock: FakeClock, *, round_trip: float, job: float, threads: int, count: int) -> int:
    """Threads run the jobs of a claim, then wait for the next one; returns the final size of a claim."""
    claimed = threads
    for _ in range(count):
        clock.advance(claimed * job + round_trip)
        pace.note(claimed, starved_seconds=round_trip)
        claimed = min(threads + pace.ahead, 100)
    return claimed


def test_the_rate_grows_though_a_distant_server_keeps_the_threads_waiting(clock):
    """No-ops of 10 us, 10 threads, 5 ms: counted over all time these were 2,000 jobs/s, and stayed so."""
    pace = distant(clock, 0.005)
    assert rounds(pace, clock, round_trip=0.005, job=1e-5, threads=10, count=20) == 100
    assert pace.ahead > 100


def test_time_spent_waiting_for_the_server_is_not_idle_time(clock):
    pace = PrefetchSize(clock=clock.monotonic)
    finish(pace, clock, 20_000)
    before = pace.per_second
    clock.advance(1)
    pace.note(0, starved_seconds=1)
    assert pace.per_second == pytest.approx(before, rel=0.01)
