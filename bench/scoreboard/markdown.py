"""Writes the scoreboard's table into a page of the documentation, between two markers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from bench.scoreboard.row import Report, Row
from bench.scoreboard.rows import ROWS

BEGIN = "<!-- scoreboard: begin, written by `python3 dev.py scoreboard --markdown docs/internals/reliability.md` -->"
END = "<!-- scoreboard: end -->"
NOT_YET = "not run yet"
#: Further figures of a row are printed by the run only.
MAX_FIGURES = 3
_LINE = re.compile(r"^\| (R\d+) \| .* \| (.*) \|$", re.MULTILINE)


def update(page: Path, reports: Sequence[Report]) -> None:
    """Write the results into the page; rows that were not run keep their results."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    old, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{page} has no table between {BEGIN} and {END}")
    results = results_in(old) | {report.name: result(report) for report in reports}
    page.write_text(f"{before}{BEGIN}\n{table(ROWS.values(), results)}\n{END}{after}")


def results_in(table_text: str) -> dict[str, str]:
    """Return the last column of a table by row name."""
    return dict(_LINE.findall(table_text))


def table(rows: Iterable[Row], results: Mapping[str, str]) -> str:
    lines = ["| row | what is done | bar | result |", "| --- | --- | --- | --- |"]
    lines += [f"| {row.name} | {row.what} | {row.bar} | {results.get(row.name, NOT_YET)} |" for row in rows]
    return "\n".join(lines)


def result(report: Report) -> str:
    """Return the result of a row as one cell."""
    if report.skipped:
        return f"skipped: {report.skipped}"
    tally = report.tally
    counts = f"{tally.acked:,} acked, {tally.ran:,} ran, **lost {tally.lost:,}**, duplicated {tally.duplicated:,}"
    counts += f", recovered {tally.recovered:,}" if tally.recovered else ""
    parts = [f"{counts}, {report.seconds:.0f} s" if tally.acked else f"{report.seconds:.0f} s"]
    parts += [f"{name} {value}" for name, value in islice(report.figures.items(), MAX_FIGURES)]
    parts += [f"partial: {part}" for part in report.partial]
    parts += [f"**missed: {what}**" for what in report.missed]
    return "; ".join(parts).replace("|", "/")
