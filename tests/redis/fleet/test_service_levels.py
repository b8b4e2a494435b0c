"""Whether jobs meet their targets."""

from __future__ import annotations

import pytest

from offsider.config.installation import Installation
from offsider.core.series import Series
from offsider.fleet import Score
from offsider.fleet.service_levels import ServiceLevels, cpu_bound, cpu_shares
from offsider.storage import run_counts
from offsider.testing import FakeClock

NOW = 1_800_000_030.0


@pytest.fixture(autouse=True)
def noon(config):
    config.clock = FakeClock(NOW)
    yield
    Installation.of(config).close()


@pytest.fixture
def ran(config):
    def ran(name: str, total: int, failed: int, satisfied: int, *, ago: float = 0, **labels: str) -> None:
        series = Series({"class": name, "queue": "q", **labels}, total, failed, satisfied=satisfied)
        run_counts.add(Installation.of(config).redis, [series], NOW - ago, wire_version=8)

    return ran


def test_each_class_is_listed_with_its_characteristics(config, ran):
    ran("Mail", 100, 2, 95, urgency="high", feature_category="post", shard="urgent")
    ran("Mail", 100, 0, 100, ago=2 * 3600, urgency="high", feature_category="post", shard="urgent")
    ran("Report", 10, 0, 10, urgency="throttled", boundary="cpu")
    levels = ServiceLevels.read(config)
    mail, report = levels.classes
    assert (mail.name, mail.urgency, mail.feature_category, mail.shard) == ("Mail", "high", "post", "urgent")
    assert mail.scores == {"1h": Score(100, 2, 3), "6h": Score(200, 2, 3), "3d": Score(200, 2, 3)}
    assert (report.boundary, report.feature_category) == ("cpu", "")
    assert levels.objective == 0.995


def test_a_window_without_runs_is_included(config, ran):
    ran("Mail", 5, 0, 5, ago=20 * 3600)
    [mail] = ServiceLevels.read(config).classes
    assert mail.scores == {"1h": Score(), "6h": Score(), "3d": Score(5)}


def test_classes_are_summed_by_urgency_category_and_shard(config, ran):
    ran("A", 10, 1, 8, urgency="high", feature_category="post", shard="urgent")
    ran("B", 20, 0, 20, urgency="high", shard="urgent")
    ran("C", 5, 0, 5, urgency="low", feature_category="post")
    levels = ServiceLevels.read(config)
    assert {name: scores["1h"] for name, scores in levels.by("urgency").items()} == {
        "high": Score(30, 1, 1),
        "low": Score(5),
    }
    assert {name: scores["1h"].total for name, scores in levels.by("feature_category").items()} == {"post": 15, "": 20}
    assert {name: scores["1h"].total for name, scores in levels.by("shard").items()} == {"urgent": 30, "": 5}
    assert levels.total["1h"] == Score(35, 1, 1)


def test_an_empty_report_emits_nothing(config):
    levels = ServiceLevels.read(config)
    assert (levels.classes, levels.total["3d"], levels.by("shard")) == ([], Score(), {})


def test_cpu_bound_classes_without_the_declaration_are_reported():
    def series(name: str, run: float, cpu: float, **labels: str) -> Series:
        return Series({"class": name, **labels}, run_seconds=run, cpu_seconds=cpu)

    counted = [
        series("Resize", 10.0, 5.0, queue="a"),
        series("Resize", 10.0, 5.0, queue="b"),
        series("Mail", 100.0, 33.0),
        series("Short", 9.9, 9.9),
        series("Declared", 10.0, 9.0, boundary="cpu"),
    ]
    assert cpu_shares(counted) == {"Resize": 0.5, "Mail": 0.33, "Declared": 0.9}
    assert cpu_bound(counted) == {"Resize": 0.5}
