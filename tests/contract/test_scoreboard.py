"""The scoreboard applies its criteria, counts lost jobs, and its page lists the existing rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.scoreboard import markdown, table
from bench.scoreboard.ground import Ground
from bench.scoreboard.row import Report
from bench.scoreboard.rows import ROWS

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "reliability.md"


def test_the_page_lists_exactly_the_existing_rows():
    _, _, rest = PAGE.read_text().partition(markdown.BEGIN)
    written, mark, _ = rest.partition(markdown.END)
    assert mark
    listed = re.findall(r"^\| (R\d+) \| (.*?) \| (.*?) \| .* \|$", written, re.MULTILINE)
    assert listed == [(row.name, row.what, row.bar) for row in ROWS.values()]


def test_results_are_written_into_the_page_and_others_stay(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        f"before\n{markdown.BEGIN}\n{markdown.table(ROWS.values(), {'R2': 'kept'})}\n{markdown.END}\nafter\n"
    )
    report = Report("R1", "full", 1)
    report.tally.acked = report.tally.ran = 12
    report.figure("kills", 3)
    markdown.update(page, [report])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    results = markdown.results_in(text)
    assert results["R1"] == "12 acked, 12 ran, **lost 0**, duplicated 0, 0 s; kills 3"
    assert results["R2"] == "kept"
    assert results["R3"] == markdown.NOT_YET


def test_a_missed_count_decides_in_every_tier_and_a_missed_time_in_full_alone():
    for tier, missed in (("smoke", ["lost 0"]), ("full", ["lost 0", "< 3 s"])):
        report = Report("R1", tier, 1)
        report.count("lost 0", holds=False)
        report.count("duplicates 0", holds=True)
        report.timed("< 3 s", holds=False)
        assert report.missed == missed
        assert report.verdict == "FAIL"
        assert "MISSED: lost 0" in "\n".join(table.lines(ROWS["R1"], report))


def test_a_check_that_the_tier_does_not_judge_is_listed_as_such():
    smoke, full = Report("R24", "smoke", 1), Report("R24", "full", 1)
    for report in (smoke, full):
        report.count("lost 0", holds=True)
        report.timed("latency right within 5 %: 100.0%", holds=False)
    assert smoke.passed
    assert table.lines(ROWS["R24"], smoke)[-1].strip() == "not judged here: latency right within 5 %: 100.0%"
    assert "times not judged here: R24" in table.summary([smoke], 1)
    assert not full.passed
    assert "not judged" not in "\n".join([*table.lines(ROWS["R24"], full), table.summary([full], 1)])


def test_a_row_that_breaks_has_missed_its_bar():
    report = Report("R1", "smoke", 1, broken="Traceback ...")
    assert not report.passed
    assert "Traceback" in "\n".join(table.lines(ROWS["R1"], report))


def test_a_report_survives_the_transfer_from_its_process():
    report = Report("R1", "full", 7, partial=["cron"])
    report.tally.lost = 2
    report.nothing_missing()
    assert Report.from_json(report.as_json()) == report


@pytest.mark.timeout(60)
def test_each_outcome_of_a_job_is_distinguished():
    with Ground("smoke", 1) as ground:
        server = ground.server()
        jids = ground.push(ground.client(server.url), 6)
        raws = server.raw.lrange("queue:default", 0, -1)[::-1]
        server.raw.delete("queue:default")
        server.raw.zadd("dead", {raws[0]: 1})
        server.raw.zadd("retry", {raws[1]: 1})
        server.raw.lpush("offsider:working:somebody:default:default", raws[2])
        effects = ground.effects()
        effects.ran(jids[3])
        effects.ran(jids[4])
        effects.ran(jids[4], interrupted_count=1)
        ground.ledger.until(2, quiet_seconds=5)
        ground.ledger.until(1, quiet_seconds=5, table="recovered")
        tally = ground.tally(jids, server)
    assert (tally.acked, tally.ran, tally.lost, tally.duplicated, tally.recovered) == (6, 2, 1, 1, 1)
    assert (tally.buried, tally.left, tally.stranded) == (1, 1, 1)
