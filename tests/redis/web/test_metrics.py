"""The metrics pages, from data written by Sidekiq's processes."""

from __future__ import annotations

import re

import pytest

from offsider.testing import FakeClock
from tests.hostile import STRINGS
from tests.markup import Markup

NOON = 1_795_262_400.0  # 2026-11-21 12:00:00 UTC


@pytest.fixture(autouse=True)
def noon(config):
    config.clock = FakeClock(NOON + 30)


@pytest.fixture
def ran(raw_redis):
    """ran("Mail", "11:58", p=3, f=1, ms=500) as a minute of today."""

    def write(name, minute, **counts):
        raw_redis.hset(f"j|261121|{minute}", mapping={f"{name}|{field}": count for field, count in counts.items()})

    return write


def took(raw_redis, name, minute, bucket, count):
    raw_redis.bitfield(f"h|{name}-21-{minute}").incrby("u16", f"#{bucket}", count).execute()


def names(data):
    return [line["name"] for line in data["lines"]]


# ------------------------------------------------------------------------------- all job classes


def test_the_classes_with_the_most_execution_time_come_first(ran, read):
    ran("Mail", "11:58", p=3, f=1, ms=500)
    ran("Import", "11:59", p=1, ms=9000)
    ran("Mail", "12:00", p=2, ms=300)
    data = read("/metrics")
    assert [(job["name"], job["success"], job["failed"]) for job in data["jobs"]] == [("Import", 1, 0), ("Mail", 4, 1)]
    assert [(job["total_seconds"], job["average_seconds"]) for job in data["jobs"]] == [(9.0, 9.0), (0.8, 0.2)]
    assert data["lines"][1]["values"][-3:] == [0.5, 0.0, 0.3]
    assert (data["processed"], data["failed"], data["total"]) == (6, 1, 2)


def test_five_lines_are_drawn_by_default(ran, read):
    for number in range(7):
        ran(f"Job{number}", "11:58", p=1, ms=1000 - number)
    data = read("/metrics")
    assert names(data) == [f"Job{number}" for number in range(5)]
    without = read("/metrics", data["jobs"][1]["toggle_path"].partition("?")[2])
    assert names(without) == ["Job0", "Job2", "Job3", "Job4"]
    more = read("/metrics", without["jobs"][6]["toggle_path"].partition("?")[2])
    assert names(more) == ["Job0", "Job2", "Job3", "Job4", "Job6"]


def test_all_lines_can_be_removed(ran, read):
    ran("Only", "11:58", p=1, ms=10)
    (job,) = read("/metrics")["jobs"]
    assert names(read("/metrics", job["toggle_path"].partition("?")[2])) == []


def test_a_ninth_line_cannot_be_selected(ran, read):
    for number in range(9):
        ran(f"Job{number}", "11:58", p=1, ms=1000 - number)
    data = read("/metrics", "&".join(f"job=Job{number}" for number in range(8)))
    assert len(data["lines"]) == data["most_lines"] == 8
    assert data["jobs"][8]["toggle_path"] == ""
    assert len(read("/metrics", "&".join(f"job=Job{number}" for number in range(9)))["lines"]) == 8


def test_a_selected_class_is_always_in_the_table(ran, read):
    for number in range(60):
        ran(f"Job{number:02}", "11:58", p=1, ms=1000 - number)
    data = read("/metrics", "job=Job59")
    assert (len(data["jobs"]), data["total"]) == (51, 60)
    assert names(data) == ["Job59"]


def test_a_filter_is_text_not_a_pattern(ran, read):
    ran("Mail", "11:58", p=1, ms=10)
    assert [job["name"] for job in read("/metrics", "name=mai")["jobs"]] == ["Mail"]
    assert read("/metrics", "name=M.*")["jobs"] == []


@pytest.mark.parametrize(
    "period,step,count", [("1h", 60, 60), ("2h", 60, 120), ("8h", 600, 48), ("24h", 1200, 72), ("72h", 2400, 108)]
)
def test_a_period_has_distinguishable_columns(read, period, step, count):
    columns = read("/metrics", f"period={period}")["columns"]
    assert (columns["step_seconds"], columns["count"]) == (step, count)


def test_long_periods_read_ten_minutes_at_a_time(raw_redis, read):
    raw_redis.hset("j|261120|13:2", mapping={"Mail|p": 2, "Mail|ms": 7000})
    assert [job["name"] for job in read("/metrics", "period=24h")["jobs"]] == ["Mail"]
    assert read("/metrics")["jobs"] == []


def test_only_the_last_hour_refreshes_itself(ask):
    assert b'data-live="60"' in ask("/metrics").body
    assert b'id="metrics" data-live' not in ask("/metrics", "period=2h").body


def test_a_deploy_is_marked(raw_redis, read, ask):
    raw_redis.hset("20261121-marks", "2026-11-21T11:40:00Z", "a1b2c3 Faster")
    assert read("/metrics")["marks"] == [{"at": NOON - 1200, "label": "a1b2c3 Faster"}]
    assert "a1b2c3 Faster" in Markup(ask("/metrics").body.decode()).text


@pytest.mark.parametrize("query", ["period=5h", "period=1h%20", f"name={'x' * 101}", f"job={'x' * 501}"])
def test_parameters_out_of_bounds_are_refused(ask, query):
    assert ask("/metrics", query).status == 400


def test_without_runs_the_page_has_a_note(ask):
    assert "No jobs ran in this period." in Markup(ask("/metrics").body.decode()).text


@pytest.mark.parametrize("count", [1, 20])
def test_hostile_names_are_escaped(ran, ask, count):
    for at in range(0, len(STRINGS), len(STRINGS) // count):
        ran(STRINGS[at].encode(errors="replace").decode(), "11:58", p=1, ms=10)
    body = ask("/metrics").body.decode()
    assert not re.search(r"<(script(?! src=)|img (?!src=\"/assets)|iframe|style)", body, re.IGNORECASE)


# -------------------------------------------------------------------------------- one job class


def test_a_class_has_its_histogram(raw_redis, ran, read):
    ran("Mail", "11:58", p=5, f=1, ms=700)
    took(raw_redis, "Mail", "11:58", 2, 3)
    took(raw_redis, "Mail", "11:59", 25, 1)
    data = read("/metrics/Mail")
    assert (data["bounds"][2], data["bounds"][25]) == ("45 ms", "> 335 s")
    assert (data["histogram"][2], data["histogram"][25], sum(data["histogram"])) == (3, 1, 4)
    assert data["counts"][-3][2] == 3
    assert data["counts"][-2][25] == 1


def test_a_class_shows_its_percentiles(raw_redis, read):
    took(raw_redis, "Mail", "11:58", 0, 60)
    took(raw_redis, "Mail", "11:58", 4, 38)
    took(raw_redis, "Mail", "11:58", 25, 2)
    within = {each["percent"]: each["label"] for each in read("/metrics/Mail")["within"]}
    assert within == {50: "≤ 20 ms", 95: "≤ 100 ms", 99: "> 335 s"}


def test_the_name_of_a_class_may_contain_any_character(raw_redis, ran, read):
    ran("Shop::Mail v2/é", "11:58", p=1, ms=10)
    (job,) = read("/metrics")["jobs"]
    assert read(*job["path"].split("?"))["success"] == 1


def test_a_class_links_to_its_jobs(read):
    data = read("/metrics/Mail")
    assert (data["retries_path"], data["dead_path"]) == ("/retries?name=Mail", "/dead?name=Mail")


def test_a_class_that_never_ran_has_an_empty_page(ask):
    assert "No data yet" in Markup(ask("/metrics/Nobody").body.decode()).text


def test_histograms_are_limited_to_eight_hours(ask, ran, raw_redis, read):
    assert ask("/metrics/Mail", "period=24h").status == 400
    raw_redis.hset("j|261120|13:2", mapping={"Mail|p": 2, "Mail|ms": 7000})
    (job,) = read("/metrics", "period=24h")["jobs"]
    assert job["path"] == "/metrics/Mail?period=8h"


def test_the_expired_jobs_of_a_class_are_counted(read, ask, raw_redis):
    raw_redis.hset("offsider:expired", mapping={"Code": 3, "Mail": 1})
    assert read("/metrics/Code")["expired"] == 3
    assert read("/metrics/Other")["expired"] == 0
    assert "Expired in total" not in ask("/metrics/Other").body.decode()
