"""The scoreboard applies its criteria, counts lost jobs, and its page lists the existing rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.scoreboard import tables
from bench.scoreboard.environment import Environment
from bench.scoreboard.row import Report
from bench.scoreboard.rows import ROWS

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "reliability.md"


def test_the_page_lists_exactly_the_existing_rows():
    _, _, rest = PAGE.read_text().partition(tables.BEGIN)
    written, mark, _ = rest.partition(tables.END)
    assert mark
    listed = re.findall(r"^\| (R\d+) \| (.*?) \| (.*?) \| .* \|$", written, re.MULTILINE)
    assert listed == [(row.name, row.what, row.bar) for row in ROWS.values()]


def test_results_are_written_into_the_page_and_others_stay(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{tables.BEGIN}\n{tables.table(ROWS.values(), {'R2': 'kept'})}\n{tables.END}\nafter\n")
    report = Report("R1", "full", 1)
    report.tally.acked = report.tally.ran = 12
    report.figure("kills", 3)
    tables.update(page, [report])
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    results = tables.results_in(text)
    assert results["R1"] == "12 acked, 12 ran, **lost 0**, duplicated 0, 0 s; kills 3"
    assert results["R2"] == "kept"
    assert results["R3"] == tables.NOT_YET


def test_a_missed_count_decides_in_every_tier_and_a_missed_time_in_full_alone():
    for tier, missed in (("smoke", ["lost 0"]), ("full", ["lost 0", "< 3 s"])):
        report = Report("R1", tier, 1)
        report.count("lost 0", holds=False)
        report.count("duplicates 0", holds=True)
        report.timed("< 3 s", holds=False)
        assert report.missed == missed
        assert report.verdict == "FAIL"
        assert "MISSED: lost 0" in "\n".join(tables.lines(ROWS["R1"], report))


@pytest.mark.timeout(60)
def test_each_outcome_of_a_job_is_distinguished():
    with Environment("smoke", 1) as env:
        server = env.server()
        jids = env.push(env.client(server.url), 6)
        raws = server.raw.lrange("queue:default", 0, -1)[::-1]
        server.raw.delete("queue:default")
        server.raw.zadd("dead", {raws[0]: 1})
        server.raw.zadd("retry", {raws[1]: 1})
        server.raw.lpush("offsider:working:somebody:default:default", raws[2])
        env.ledger.ran(jids[3])
        env.ledger.ran(jids[4])
        env.ledger.ran(jids[4], interrupted_count=1)
        env.ledger.until(2, quiet_seconds=5)
        env.ledger.until(1, quiet_seconds=5, table="recovered")
        tally = env.tally(jids, server)
    assert (tally.acked, tally.ran, tally.lost, tally.duplicated, tally.recovered) == (6, 2, 1, 1, 1)
    assert (tally.buried, tally.left, tally.stranded) == (1, 1, 1)
