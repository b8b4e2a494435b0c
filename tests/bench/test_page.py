"""Figures survive their file, and land between the markers of the pages."""

import pytest

from bench.compare.page import PAGE, README, draw, load, placed, report, save, short
from bench.compare.rivals import CONTESTANTS
from bench.compare.stats import Rows, Sample

ABOUT = {"date": "2026-11-21", "python": "3.11.7", "redis": "7.0.15", "cpus": 2, "cpu": "a CPU", "versions": {}}
SAMPLES = [
    Sample("drain", "offsider", 0, {"rate": 50_000.0}, noisy=True),
    Sample("drain", "Huey", 0, error="its worker ended"),
]


def test_samples_are_read_back_from_their_file(tmp_path):
    save(tmp_path / "figures.json", ABOUT, SAMPLES)
    assert load(tmp_path / "figures.json") == (ABOUT, SAMPLES)


def test_only_the_text_between_the_markers_changes():
    page = "before\n<!-- compare: begin, written -->\nold\n<!-- compare: end -->\nafter\n"
    assert placed(page, "new") == ("before\n<!-- compare: begin, written -->\n\nnew\n\n<!-- compare: end -->\nafter\n")
    assert placed(placed(page, "new"), "new") == placed(page, "new")


def test_a_page_without_markers_is_refused():
    with pytest.raises(ValueError, match="no markers"):
        placed("text", "new")


@pytest.mark.parametrize("page", [PAGE, README], ids=lambda path: path.name)
def test_the_pages_have_their_markers(page):
    assert "new" in placed(page.read_text(), "new")


def test_the_report_has_machine_figures_settings_and_bars():
    text = report(ABOUT, Rows(SAMPLES), CONTESTANTS)
    for part in ("2 CPUs (a CPU)", "| offsider | ~50,000 (n = 1) |", "**Settings**", "not measured"):
        assert part in text


def test_the_report_names_the_round_trip_of_the_run():
    assert "on loopback without persistence, 0.5 ms of round trip away;" in report(
        ABOUT | {"rtt_ms": 0.5}, Rows(SAMPLES), CONTESTANTS
    )


def test_the_readme_gets_a_heading_medians_and_a_link_to_all_figures():
    text = short(ABOUT, Rows(SAMPLES), CONTESTANTS)
    for part in ("## Speed", "| offsider | ~50,000 |", "(docs/internals/performance.md#beside-others)"):
        assert part in text
    assert "## Beside others" in PAGE.read_text()


def test_the_readme_does_not_count_jobs_as_lost_that_a_rival_recovers_later():
    samples = [Sample("kill", "arq", 0, {"lost": 9.0, "patience": 110.0})]
    assert "Jobs that have not run by then are not always lost: arq takes" in short(ABOUT, Rows(samples), CONTESTANTS)


def test_the_chart_puts_the_best_on_top(tmp_path):
    rows = Rows(
        [
            Sample("drain", "Huey", 0, {"rate": 5.0}),
            Sample("drain", "offsider", 0, {"rate": 10.0}),
            Sample("latency", "Huey", 0, {"p50": 3.0}),
            Sample("latency", "offsider", 0, {"p50": 1.0}),
        ]
    )
    draw(rows, tmp_path / "compare.svg")
    lines = (tmp_path / "compare.svg").read_text().splitlines()
    names = [line.partition(">")[2].partition("<")[0] for line in lines if "text-anchor" in line]
    assert names == ["offsider", "Huey", "offsider", "Huey"]
