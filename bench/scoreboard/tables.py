"""Prints reports in a terminal, and writes them into a page of the documentation, between two markers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from bench.scoreboard.row import Report, Row
from bench.scoreboard.rows import ROWS

COUNTS = ("pushed", "acked", "ran", "lost", "duplicated", "recovered")
RARE = ("buried", "stranded", "left")
INDENT = " " * 10
BEGIN = "<!-- scoreboard: begin, written by `python3 dev.py scoreboard --markdown docs/internals/reliability.md` -->"
END = "<!-- scoreboard: end -->"
NOT_YET = "not run yet"
#: Figures in the page; the terminal shows all.
MAX_FIGURES = 1
_LINE = re.compile(r"^\| (R\d+) \| .* \| (.*) \|$", re.MULTILINE)


def show(row: Row, report: Report) -> None:
    """Print one row after its run."""
    print("\n".join(lines(row, report)), flush=True)


def lines(row: Row, report: Report) -> list[str]:
    """Return the lines of a row: counts, bar, figures, and missed checks."""
    tally = report.tally
    counts = [f"{name} {getattr(tally, name):,}" for name in COUNTS]
    counts += [f"{name} {getattr(tally, name):,}" for name in RARE if getattr(tally, name)]
    head = f"{row.name:<4}{report.verdict:<6}{'  '.join(counts)}  {report.seconds:.1f} s"
    if report.skipped:
        head = f"{row.name:<4}{report.verdict}: {report.skipped}"
    texts = [f"{row.what}; bar: {row.bar}"]
    texts += ["; ".join(f"{name} {value}" for name, value in report.figures.items())] if report.figures else []
    texts += [f"MISSED: {what}" for what in report.missed]
    texts += [f"not judged here: {what}" for what in report.unjudged]
    shown = [head]
    for text in texts:
        shown += textwrap.wrap(text, 120, initial_indent=INDENT, subsequent_indent=INDENT)
    return [*shown, *textwrap.indent(report.broken.rstrip(), INDENT).splitlines()]


def summary(reports: Sequence[Report], seconds: float) -> str:
    verdicts = [report.verdict for report in reports]
    parts = [f"{verdicts.count('pass')} of {len(reports)} rows pass in {seconds:.0f} s"]
    parts += [f"{verdicts.count('skipped')} skipped"] if "skipped" in verdicts else []
    for what, names in (
        ("times not judged here", [report.name for report in reports if report.unjudged]),
        ("MISSED", [report.name for report in reports if not report.passed]),
    ):
        parts += [f"{what}: {' '.join(names)}"] if names else []
    return "; ".join(parts)


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
    heads = ["| row | what is done | bar | result |", "| --- | --- | --- | --- |"]
    return "\n".join(
        heads + [f"| {row.name} | {row.what} | {row.bar} | {results.get(row.name, NOT_YET)} |" for row in rows]
    )


def result(report: Report) -> str:
    """Return the result of a row as one cell."""
    if report.skipped:
        return f"skipped: {report.skipped}"
    tally = report.tally
    counts = f"{tally.acked:,} acked, {tally.ran:,} ran, **lost {tally.lost:,}**, duplicated {tally.duplicated:,}"
    counts += f", recovered {tally.recovered:,}" if tally.recovered else ""
    parts = [f"{counts}, {report.seconds:.0f} s" if tally.acked else f"{report.seconds:.0f} s"]
    parts += [f"{name} {value}" for name, value in islice(report.figures.items(), MAX_FIGURES)]
    parts += [f"**missed: {what}**" for what in report.missed]
    return "; ".join(parts).replace("|", "/")
