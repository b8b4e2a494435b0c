"""The screen of classes: figures are those of a seeded workload."""

from __future__ import annotations

import time

import pytest

from offsider.config.installation import Installation
from offsider.core.series import BOUNDS_SECONDS, DURATION_SECONDS, Series
from offsider.inspector import Deploys
from offsider.storage import run_counts
from offsider.testing import FakeClock
from tests.markup import Markup
from tests.redis.cli.commands import command
from tests.redis.web.blocks import bars, block, facts, rows

NOON = 1_795_262_400.0  # 2026-11-21 12:00:00 UTC
MINUTE = 60


@pytest.fixture(autouse=True)
def noon(config):
    config.clock = FakeClock(NOON + 30)


@pytest.fixture
def ran(config):
    """ran("Mail", 100, failed=1, ago=60): as the heartbeat of a worker writes it."""

    def ran(
        name: str,
        total: int,
        *,
        failed: int = 0,
        late: int = 0,
        took=0.02,
        waited=0.1,
        ago: float = 0,
        release="v1",
        **labels,
    ) -> None:
        series = Series({"class": name, "queue": "q", "urgency": "low", **labels}, total, failed)
        series.satisfied, series.run_seconds = total - failed - late, total * took
        series.failed_seconds = failed * took
        place = DURATION_SECONDS.index(took)
        series.run_buckets[place], series.failed_buckets[place] = total, failed
        series.queue_buckets[BOUNDS_SECONDS.index(waited)] = total
        redis = Installation.of(config).redis
        run_counts.add(redis, [series], NOON - ago, wire_version=8, release=release)

    return ran


# ------------------------------------------------------------------------------- all classes


def test_classes_are_listed_by_harm_with_what_a_release_has_changed(ran, read, ask):
    ran("Busy", 9_000)
    ran("Late", 100, late=20, waited=60.0)
    ran("Invoice", 50, ago=10 * MINUTE, release="v41")
    ran("Invoice", 50, failed=36, took=1.0, release="v42")
    ran("Urgent", 10, failed=9, urgency="high")
    ran("Past", 7, failed=7, ago=61 * MINUTE)
    shown = {row["Class"]: row for row in rows(read("/class"), "Classes")}
    assert list(shown) == ["Urgent", "Invoice", "Late", "Busy"], "unsatisfied runs, weighted by urgency"
    invoice = shown["Invoice"]
    assert (invoice["Runs"], invoice["Failed"], invoice["Failed %"]) == (100, 36, "36 %")
    assert (invoice["By release"], invoice["p95"], invoice["Before"]) == ("v42 72 %, v41 0 %", "1 s", "20 ms")
    assert (sum(invoice["Trend"]), sum(shown["Busy"]["Trend"])) == (36, 9_000)
    assert (shown["Late"]["Wait p95"], shown["Busy"]["Wait p95"]) == ("60 s", "100 ms")
    assert [row["Class"] for row in rows(read("/class", "name=INV"), "Classes")] == ["Invoice"]
    assert 'href="/class/Invoice"' in ask("/class").body.decode()


def test_a_long_period_has_the_runs_of_all_workers_by_ten_minutes(ran, read, ask):
    ran("Mail", 3, failed=1, took=1.0, ago=20 * 3600)
    ran("Mail", 2)
    (row,) = rows(read("/class", "period=24h"), "Classes")
    assert (row["Runs"], row["Failed"], row["Failed %"], row["Total"]) == (5, 1, "20 %", "2.04 s")
    assert ask("/class", "period=5h").status == 400


@pytest.mark.parametrize(
    "old,new",
    [
        ("/metrics", "/class"),
        ("/metrics?period=24h&name=Mail", "/class?period=24h&name=Mail"),
        ("/metrics/shop.Mail", "/class/shop.Mail"),
    ],
)
def test_old_addresses_lead_to_the_classes(ask, old, new):
    path, _, query = old.partition("?")
    answer = ask(path, query)
    assert (answer.status, dict(answer.headers)["location"]) == (302, new)


# ------------------------------------------------------------------------------- one class


def test_one_class_has_runs_durations_and_waits_on_one_axis(config, ran, read, ask):
    ran("Mail", 10, took=0.1, ago=5 * MINUTE, release="v41")
    ran("Mail", 20, failed=15, took=1.7, waited=10.0, release="v42")
    ran("Other", 99)
    Deploys(config).mark("a1b2c3 Faster", at=NOON - 5 * MINUTE)
    page = read("/class/Mail")
    found = facts(page, "Runs")
    assert (found["Runs"], found["Succeeded"], found["Failed"], found["Failed %"]) == (30, 15, 15, "50 %")
    assert found["p50, p95, p99"] == "1.7 s, 1.7 s, 1.7 s", "failed runs count"
    runs = bars(page, "Runs per minute")
    assert [runs[name][-6:] for name in ("Succeeded", "Failed")] == [[10, 0, 0, 0, 0, 5], [0, 0, 0, 0, 0, 15]]
    heat = {row["name"]: row for row in block(page, "Durations, failed runs hatched")["rows"]}
    assert (heat["100 ms"]["values"][-6], heat["100 ms"]["failed"][-6]) == (10, 0)
    assert (heat["1.7 s"]["values"][-1], heat["1.7 s"]["failed"][-1]) == (20, 15)
    assert [bars(page, "Queue wait, p95")["Wait"][at] for at in (-6, -2, -1)] == [0.1, 0, 10.0]
    charts = [each for each in page["blocks"] if each["is"] in ("chart", "heat")]
    assert {(each["starts_at"], each["step_seconds"]) for each in charts} == {(NOON - 59 * MINUTE, MINUTE)}
    marks = [{"at": NOON - 300, "label": "a1b2c3 Faster"}, {"at": NOON - 300, "label": "v41"}]
    assert charts[0]["marks"] == [*marks, {"at": NOON, "label": "v42"}]
    html = ask("/class/Mail").body.decode()
    assert html.count('class="hatched"') == 1
    assert "a1b2c3 Faster" in Markup(html).text


def test_releases_are_compared(raw_redis, ran, read):
    raw_redis.sadd("processes", "h:1:x")
    raw_redis.hset("h:1:x", mapping={"info": '{"hostname": "web-1", "app_version": "v42"}', "busy": 0})
    ran("Mail", 100, ago=10 * MINUTE, release="v41")
    ran("Mail", 50, failed=36, took=1.0, release="v42")
    new, old = rows(read("/class/Mail"), "Releases")
    assert (old["Release"], old["Runs"], old["Failed %"], old["First run"]) == ("v41", 100, "0 %", NOON - 600)
    assert (new["Failed"], new["Failed %"], new["p95"], new["Seconds"], new["Running on"]) == (
        *(36, "72 %", "1 s", 50.0, "web-1"),
    )


def test_it_is_shown_where_the_jobs_of_a_class_are(raw_redis, ran, read):
    def job(number, name="Mail"):
        return f'{{"class":"{name}","args":[],"jid":"{number:024}","queue":"q","retry_count":1}}'

    ran("Mail", 1)
    raw_redis.sadd("queues", "q")
    raw_redis.lpush("queue:q", *(job(number) for number in range(3)), job(9, "Other"))
    raw_redis.zadd("retry", {job(10): NOON + 40, job(11): NOON + 400, job(12, "Other"): NOON})
    raw_redis.zadd("dead", {job(20): NOON - 40})
    page = read("/class/Mail")
    assert [(row["Where"], row["Jobs"], row["Due"]) for row in rows(page, "Jobs now")] == [
        ("Running", "0", ""),
        ("queue:q", "3", ""),
        ("To retry", "2", "1 in the next minute"),
        ("Dead", "1", ""),
    ]
    links = [row[1]["path"] for row in block(page, "Jobs now")["rows"]]
    assert links[1:3] == ["/jobs?where=queue%3Aq&class=Mail", "/jobs?where=retry&class=Mail"]


def test_a_class_that_never_ran_and_odd_names_are_shown(ask, read):
    assert facts(read("/class/no~20such"), "Runs")["Runs"] == 0
    assert ask("/class/~3cscript~3e").status == 200


def test_a_cpu_bound_class_has_a_note(config, read):
    series = Series({"class": "Resize", "queue": "q"}, 1, run_seconds=20.0, cpu_seconds=15.0)
    run_counts.add(Installation.of(config).redis, [series], NOON, wire_version=8)
    (note,) = [each["text"] for each in read("/class/Resize")["blocks"] if each["is"] == "note"]
    assert "75% of their time on the CPU. Declare resource_boundary=" in note


def test_the_terminal_shows_a_class(redis_url, monkeypatch, tmp_path, ran):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)
    ran("shop.Mail", 20, failed=15, ago=NOON - time.time())
    show = command("show")
    lines = show("class").output.splitlines()
    assert [line.split()[:4] for line in lines if "shop.Mail" in line] == [["shop.Mail", "20", "15", "75"]]
    output = show("class", "shop.Mail").output
    assert "Failed     " in output
    assert "█  total 15" in output


# ------------------------------------------------------------------------------- service levels


def test_error_budgets_are_those_of_the_runs(config, ran, read):
    ran("Mail", 600, failed=2, late=2, ago=MINUTE, urgency="high", feature_category="post")
    ran("Mail", 400, late=1, ago=5 * 3600, urgency="high", feature_category="post")
    ran("Mail", 1000, ago=30 * 3600, urgency="high", feature_category="post")
    ran("Bad", 10, failed=1, urgency="throttled")
    page = read("/class", "by=budget")
    bad, mail = rows(page, "Classes")
    assert bad["Class"] == "Bad", "the class with the least budget left is first"
    assert [mail[name] for name in ("Runs", "Failed", "Too late", "Apdex", "Budget left")] == [
        *(2000, 2, 3, "99.75%", "50%"),
    ]
    assert (mail["Burn 1h"], mail["Burn 6h"]) == ("1.3 x", "1.0 x")
    high, throttled = rows(page, "Urgencies")
    assert (high["Starts within"], high["Ends within"], high["Runs"]) == ("10 s", "10 s", 2000)
    assert (throttled["Starts within"], throttled["Ends within"]) == ("any time", "300 s")
    assert [row["Category"] for row in rows(page, "Categories")] == ["post"]
    (own,) = rows(read("/class/Mail"), "Error budget of 3 days")
    assert own["Budget left"] == "50%"
    config.slo.apdex_objective = 0.8
    assert rows(read("/class", "by=budget"), "Classes")[0]["Budget left"] == "50%"
