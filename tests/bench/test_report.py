"""Figures are written as medians with a visible range, and samples survive a file."""

from __future__ import annotations

from bench import report
from bench.compare.rivals import CONTESTANTS
from bench.compare.tables import TABLES, report as tables
from bench.report import Column, Rows, Sample, Summary, table, written
from offsider.embedded import find_server_binary


def test_a_figure_shows_its_range_its_repeats_and_its_noise():
    assert written(None) == "–"  # noqa: RUF001
    assert written(Summary(1234.5, 1234.5, 1234.5, 3), 1) == "1,234.5"
    assert written(Summary(2.0, 1.0, 3.0, 3), times=100) == "200 (100–300)"  # noqa: RUF001
    assert written(Summary(2.0, 2.0, 2.0, 1, noisy=True)) == "~2 (n = 1)"


def test_a_table_has_a_line_for_each_name_with_a_figure():
    rows = Rows([Sample("drain", name, repeat, {"rate": 5.0}) for name in ("a", "b") for repeat in (0, 1)])
    columns = [Column("drain", "rate", "jobs/s"), Column("drain", "none", "nothing")]
    assert table(rows, "Speed", ["a", "b", "c"], columns).splitlines() == [
        "**Speed**",
        "",
        "|  | jobs/s | nothing |",
        "| --- | ---: | ---: |",
        "| a | 5 | – |",  # noqa: RUF001
        "| b | 5 | – |",  # noqa: RUF001
    ]
    assert table(rows, "Speed", ["c"], columns) == ""


def test_every_table_is_reported():
    figures = {column.figure: 1.0 for columns in TABLES.values() for column in columns}
    tests = {column.test for columns in TABLES.values() for column in columns}
    samples = [Sample(test, CONTESTANTS[0].name, 0, figures) for test in tests]
    about = report.conditions(find_server_binary(), {"offsider": "0.1.0"}, 1.0)
    assert "1 ms of round trip away; offsider 0.1.0" in about
    text = tables(about, Rows(samples), CONTESTANTS[:1])
    assert all(f"**{title}**" in text for title in (*TABLES, "Settings"))
