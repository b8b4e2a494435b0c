"""The page of promises: its figures are those of a seeded workload."""

from __future__ import annotations

import json

import pytest

from offsider.config.installation import Installation
from offsider.core.series import Load, Series
from offsider.storage import run_counts
from offsider.testing import FakeClock
from tests.hostile import STRINGS
from tests.markup import Markup

NOON = 1_795_262_400.0  # 2026-11-21 12:00:00 UTC


@pytest.fixture(autouse=True)
def noon(config):
    config.clock = FakeClock(NOON + 30)


@pytest.fixture
def ran(config):
    """ran("Mail", 100, failed=1, satisfied=98, ago=60): as the heartbeat of a worker writes it."""

    def ran(name: str, total: int, *, failed: int = 0, satisfied: int | None = None, ago: float = 0, **labels) -> None:
        series = Series({"class": name, "queue": "q", "urgency": "low", **labels}, total, failed)
        series.satisfied = total - failed if satisfied is None else satisfied
        run_counts.add(Installation.of(config).redis, [], [series], NOON - ago, wire_version=8)

    return ran


@pytest.fixture
def worked(config):
    def worked(shard: str, run: float, threads: float, ago: float) -> None:
        load = Load(run, threads)
        run_counts.add(Installation.of(config).redis, [], [], NOON - ago, wire_version=8, load=load, shard=shard)

    return worked


def names(rows):
    return [row["name"] for row in rows]


def test_a_class_has_apdex_error_budget_and_burn_rate(ran, read):
    ran("Mail", 600, failed=2, satisfied=596, ago=60)
    ran("Mail", 400, satisfied=399, ago=5 * 3600)
    ran("Mail", 1000, ago=30 * 3600)
    (mail,) = read("/slos")["classes"]
    assert (mail["total"], mail["satisfied"], mail["failed"], mail["missed"]) == (2000, 1995, 2, 3)
    assert mail["apdex"] == pytest.approx(0.9975)
    assert mail["budget_left"] == pytest.approx(0.5)
    assert mail["burn"]["1h"] == pytest.approx(4 / 600 / 0.005)
    assert mail["burn"]["6h"] == pytest.approx(5 / 1000 / 0.005)
    assert mail["path"] == "/metrics/Mail"
    shown = read("/slos", "window=6h")["classes"][0]
    assert (shown["total"], shown["apdex"]) == (1000, 0.995)


def test_the_objective_is_a_setting(config, ran, read):
    config.slo.apdex_objective = 0.9
    ran("Mail", 100, failed=5)
    data = read("/slos")
    assert (data["objective"], data["window"]) == (0.9, "3d")
    assert data["all"]["budget_left"] == pytest.approx(0.5)


def test_urgencies_have_their_targets_and_categories_their_totals(ran, read):
    ran("Mail", 10, failed=1, urgency="high", feature_category="post")
    ran("Post", 30, urgency="high", feature_category="post")
    ran("Report", 5, urgency="throttled")
    data = read("/slos")
    assert [(row["name"], row["total"], row["queue_seconds"], row["run_seconds"]) for row in data["urgencies"]] == [
        ("high", 40, 10.0, 10.0),
        ("throttled", 5, None, 300.0),
    ]
    assert [(row["name"], row["total"], row["error_rate"]) for row in data["categories"]] == [("post", 40, 0.025)]
    assert (data["all"]["total"], data["all"]["failed"]) == (45, 1)


def test_the_worst_classes_are_first_by_default(ran, read):
    ran("Good", 1000)
    ran("Bad", 10, failed=1)
    ran("Late", 100, satisfied=99)
    ran("Gone", 7, failed=7, ago=20 * 3600)
    assert names(read("/slos")["classes"]) == ["Gone", "Bad", "Late", "Good"]
    assert names(read("/slos", "sort=name")["classes"]) == ["Bad", "Gone", "Good", "Late"]
    assert names(read("/slos", "sort=total")["classes"]) == ["Good", "Late", "Bad", "Gone"]
    assert names(read("/slos", "sort=burn")["classes"]) == ["Bad", "Late", "Good", "Gone"]
    assert names(read("/slos", "window=1h&sort=apdex")["classes"]) == ["Bad", "Late", "Good", "Gone"]
    assert read("/slos", "window=1h")["sorts"]["burn"] == "/slos?window=1h&sort=burn"


def test_the_number_of_shown_classes_is_limited(ran, read, ask):
    for number in range(201):
        ran(f"Job{number}", 1)
    data = read("/slos")
    assert (len(data["classes"]), data["total"]) == (200, 201)
    assert "Showing 200 of 201 job classes." in Markup(ask("/slos").body.decode()).text


def test_a_shard_has_its_utilization_over_an_hour_ten_minutes_and_now(raw_redis, worked, read, ask):
    info = {"hostname": "h", "concurrency": 10, "queues": ["q"], "shard": "urgent"}
    raw_redis.sadd("processes", "h:1:x")
    raw_redis.hset("h:1:x", mapping={"info": json.dumps(info), "busy": 7, "quiet": "false"})
    for ago in range(0, 3600, 60):
        worked("urgent", 6.0 if ago < 600 else 1.8, 10.0, ago)
    (shard,) = read("/slos")["shards"]
    assert (shard["name"], shard["processes"], shard["threads"], shard["busy"]) == ("urgent", 1, 10, 7)
    assert shard["used"]["now"] == 0.7
    assert shard["used"]["10m"] == pytest.approx(0.6, abs=0.05)
    assert shard["used"]["1h"] == pytest.approx(0.25, abs=0.01)
    assert shard["desired"] == 2
    course = shard["course"]
    assert course["columns"] == {"starts_at": NOON - 6 * 3600, "step_seconds": 180, "count": 120}
    assert (course["instant"][-2], course["instant"][0]) == (60.0, None)
    page = ask("/slos").body.decode()
    assert page.count('class="zone"') == 1
    assert "target range: 23\N{EN DASH}43%" in page
    assert page.count("<polyline") == 3


def test_workers_without_a_shard_have_a_row(worked, ask):
    worked("", 1.0, 10.0, 120)
    assert "Workers without a shard" in Markup(ask("/slos").body.decode()).text


def test_a_cpu_bound_class_has_a_note(config, ran, read, ask):
    ran("Resize", 10)
    series = Series({"class": "Resize", "queue": "q"}, run_seconds=20.0, cpu_seconds=15.0)
    run_counts.add(Installation.of(config).redis, [], [series], NOON, wire_version=8)
    assert [row["cpu_share"] for row in read("/slos")["classes"]] == [0.75]
    assert "CPU: 75%" in Markup(ask("/slos").body.decode()).text
    assert read("/metrics/Resize")["cpu_share"] == 0.75
    output = Markup(ask("/metrics/Resize").body.decode()).text
    assert '75% of its execution time on the CPU. Declare resource_boundary="cpu"' in output
    assert read("/metrics/Other")["cpu_share"] is None


def test_without_runs_the_page_has_a_note(ask):
    assert "No jobs ran in this period." in Markup(ask("/slos").body.decode()).text


@pytest.mark.parametrize("query", ["window=2h", "sort=odd", "window=1h%20"])
def test_parameters_out_of_bounds_are_refused(ask, query):
    assert ask("/slos", query).status == 400


def test_hostile_names_are_escaped(ran, worked, ask):
    for at, text in enumerate(STRINGS[::7]):
        name = text.encode(errors="replace").decode()
        ran(f"{at} {name}", 1, feature_category=name, shard=name)
        worked(name, 1.0, 2.0, 60)
    body = ask("/slos").body.decode()
    assert ask("/slos").status == 200
    assert "<script>" not in body.replace("<script src", "")
    assert "<img src=x" not in body
