"""Workers at a distance: the tests that run, and the table and bars of their samples."""

from pathlib import Path

import pytest

from bench.compare.contestant import Contestant
from bench.compare.page import PAGE, placed
from bench.compare.server import Server
from bench.compare.stats import Rows, Sample
from bench.rtt import page, plan, relay
from bench.rtt.plan import NO_OPS, PICK_UP, SCALE, SHORT_JOBS, name_of

ABOUT = {
    "date": "2026-11-22",
    "cpus": 2,
    "cpu": "a CPU",
    "python": "3.11.7",
    "redis": "7.0.15",
    "versions": {"offsider": "0.1.0"},
    "relay": [{"rtt_ms": 0.5, "p50": 0.61, "p99": 0.72, "requests": 12_345.0, "mb": 800.0}],
    "round_trips_ms": [0.0, 1.0, 5.0],
    "rounds": 3,
    "load": [0.25, 1.75],
}


def contestant(name: str) -> Contestant:
    return Contestant(name=name, app="", rate=30_000, worker=lambda *_: [], settings="", safety="")


def samples(test: str, rtt_ms: float, name: str, *rates: float) -> list[Sample]:
    return [Sample(name_of(test, rtt_ms), name, repeat, {"rate": rate}) for repeat, rate in enumerate(rates)]


ROWS = Rows(
    [
        *samples(NO_OPS, 0, "offsider", 100_000, 50_000, 90_000),
        *samples(NO_OPS, 1, "offsider", 60_000, 35_000, 45_000),
        *samples(NO_OPS, 5, "offsider", 15_000, 16_000, 17_000),
        *samples(NO_OPS, 5, "Other", 2_000),
        *samples(NO_OPS, 5, "Another", 4_000),
        Sample(name_of(PICK_UP, 5), "offsider", 0, {"p50": 2.75, "p99": 3.5}),
    ]
)


def test_everything_is_played_at_each_distance():
    names = [test.name for test in plan.tests([0, 5])]
    assert names == [name_of(test, rtt_ms) for rtt_ms in (0, 5) for test in (NO_OPS, SHORT_JOBS, PICK_UP)]


def test_a_first_run_expects_less_of_a_distant_server():
    near, far = (plan.tests([rtt_ms])[0] for rtt_ms in (0, 5))
    one = contestant("offsider")
    assert near.rate is not None
    assert far.rate is not None
    assert (near.rate(one), far.rate(one)) == (30_000, 2_000)


def test_an_idle_worker_gets_time_to_wait_again(monkeypatch):
    """Between two pushes lie a few round trips: the last acknowledgement, an empty claim, and the pop."""
    asked = []
    monkeypatch.setattr(plan.runs, "latency", lambda one, *_, **options: asked.append((one.gap_ms, options)) or {})
    plan.tests([5])[2].run(contestant("offsider"), Path(), 0, SCALE)
    assert asked == [(35, {"pushes": 100, "rtt_ms": 5})]


def test_the_share_is_that_of_each_round():
    """A slow spell of the machine counts once: 0.6, 0.7 and 0.5, though the medians are 45 and 90."""
    text = page.report(ABOUT, ROWS, [contestant("offsider")])
    assert "| offsider | 1 | 45,000 (35,000–60,000) | 0.60 |" in text  # noqa: RUF001


def test_the_table_has_each_contestant_at_each_distance_and_the_relay_overhead():
    text = page.report(ABOUT, ROWS, [contestant("offsider"), contestant("Other")])
    assert [line.split("|")[1:3] for line in text.splitlines() if line.startswith(("| offsider", "| Other"))] == [
        [f" {name} ", f" {rtt} "] for name in ("offsider", "Other") for rtt in (0, 1, 5)
    ]
    assert "| 2.75 (n = 1) | 3.50 (n = 1) |" in text
    assert "| 0.5 | 0.61 | 0.72 | 12,345 | 800 |" in text
    assert "was 0.2 before the run and 1.8 at its end" in text


def test_bars_are_compared_with_the_fastest_rival():
    values = {bar.name: (bar.value, bar.verdict) for bar in page.bars([0.0, 1.0, 5.0], ROWS)}
    assert values["no-ops at 1 ms: share of those at 0 ms"] == (0.6, "fail")
    assert values["no-ops at 5 ms, jobs/s"] == (16_000, "fail")
    assert values["no-ops at 5 ms: times the fastest rival's"] == (4.0, "pass")
    assert values["10 ms at 5 ms: times the fastest rival's"] == (None, "not measured")


def test_the_page_has_a_place_for_it():
    assert "new figures" in placed(PAGE.read_text(), "new figures", "rtt")
    with pytest.raises(ValueError, match="rtt: begin"):
        placed("nothing", "", "rtt")


@pytest.mark.needs("redis-server")
def test_the_relay_is_measured():
    with Server() as server:
        found = relay.measure(server, 2.0)
    assert found["rtt_ms"] == 2
    assert 2 < found["p50"] <= found["p99"]
    assert found["requests"] > 0
    assert found["mb"] > 0
