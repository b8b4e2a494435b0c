"""Prints the scoreboard in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from bench.scoreboard.row import Report, Row

COUNTS = ("pushed", "acked", "ran", "lost", "duplicated", "recovered")
RARE = ("buried", "stranded", "left")
INDENT = " " * 10


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
    shown = [head, *_wrapped(f"{row.what}; bar: {row.bar}")]
    if report.figures:
        shown += _wrapped("; ".join(f"{name} {value}" for name, value in report.figures.items()))
    shown += [line for part in report.partial for line in _wrapped(f"partial: {part}")]
    shown += [line for what in report.missed for line in _wrapped(f"MISSED: {what}")]
    shown += [line for what in report.unjudged for line in _wrapped(f"not judged here: {what}")]
    if report.broken:
        shown += textwrap.indent(report.broken.rstrip(), INDENT).splitlines()
    return shown


def summary(reports: Sequence[Report], seconds: float) -> str:
    verdicts = [report.verdict for report in reports]
    failed = [report.name for report in reports if not report.passed]
    partial = [report.name for report in reports if report.partial]
    parts = [f"{verdicts.count('pass')} of {len(reports)} rows pass in {seconds:.0f} s"]
    parts += [f"{verdicts.count('skipped')} skipped"] if "skipped" in verdicts else []
    parts += [f"partial: {' '.join(partial)}"] if partial else []
    unjudged = [report.name for report in reports if report.unjudged]
    parts += [f"times not judged here: {' '.join(unjudged)}"] if unjudged else []
    parts += [f"MISSED: {' '.join(failed)}"] if failed else []
    return "; ".join(parts)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 120, initial_indent=INDENT, subsequent_indent=INDENT)
