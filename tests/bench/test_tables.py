"""Figures as people read them."""

from bench.compare.rivals import CONTESTANTS
from bench.compare.stats import Rows, Sample, Summary
from bench.compare.tables import all_tables, patience, settings_table, short_table, written

ROWS = Rows(
    [
        Sample("drain", "offsider", 0, {"rate": 50_000.0, "worker_us": 11.0}),
        Sample("drain", "offsider", 1, {"rate": 60_000.0, "worker_us": 12.0}),
        Sample("drain", "Huey", 0, {"rate": 4_000.0}, noisy=True),
        Sample("drain", "SAQ", 0, error="its worker ended"),
    ]
)


def test_a_figure_is_the_median_with_its_range():
    assert written(Summary(55_000.0, 50_000.0, 60_000.0, 2)) == "55,000 (50,000–60,000)"  # noqa: RUF001


def test_a_range_that_does_not_show_is_left_out():
    assert written(Summary(1.0, 0.96, 1.04, 3)) == "1"


def test_a_disturbed_figure_is_marked_and_a_missing_one_is_a_dash():
    assert written(Summary(2.0, 2.0, 2.0, 1, noisy=True), 1) == "~2.0 (n = 1)"
    assert written(None) == "–"  # noqa: RUF001


def test_only_contestants_with_a_figure_are_in_a_table_and_only_tables_with_contestants():
    text = all_tables(ROWS, CONTESTANTS)
    assert "| offsider | 55,000 (50,000–60,000) |" in text  # noqa: RUF001
    assert "| Huey | ~4,000 (n = 1) |" in text
    assert "SAQ" not in text
    assert "Pushed" not in text


def test_the_short_table_has_medians_alone():
    assert "| offsider | 55,000 | –" in short_table(ROWS, CONTESTANTS)  # noqa: RUF001


def test_every_row_of_a_table_has_as_many_cells():
    for text in (all_tables(ROWS, CONTESTANTS), short_table(ROWS, CONTESTANTS), settings_table(CONTESTANTS)):
        for block in text.split("\n\n"):
            lines = [line for line in block.splitlines() if line.startswith("|")]
            assert len({line.count("|") for line in lines}) <= 1


def test_the_short_table_has_the_time_waited_for_jobs_of_a_killed_worker():
    rows = Rows([Sample("kill", name, 0, {"lost": 9.0, "patience": 110.0}) for name in ("offsider", "arq")])
    head, _, *lines = short_table(rows, CONTESTANTS).splitlines()
    assert head.endswith("| not run 110 s after `kill -9` |")
    assert all(line.endswith("| 9 |") for line in lines)


def test_a_patience_that_differs_or_is_missing_is_not_given_in_seconds():
    differing = [Sample("kill", name, 0, {"patience": seconds}) for name, seconds in (("arq", 110.0), ("SAQ", 150.0))]
    assert patience(Rows(differing)) == patience(Rows([])) == "some time"
