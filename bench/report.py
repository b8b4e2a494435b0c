"""The report of a comparison: its conditions, its samples in a file, and tables of its figures."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.compare.stats import Rows, Sample, Summary

NOTHING = "–"  # noqa: RUF001  # a dash, as a table has it


@dataclass(frozen=True)
class Column:
    """A column of a table: the heading, and the figure of a test with its decimal digits, multiplied by ``times``."""

    test: str
    figure: str
    head: str
    digits: int = 0
    times: float = 1

    def cell(self, rows: Rows, name: str) -> str:
        return written(rows.summary(self.test, name, self.figure), self.digits, self.times)


def written(summary: Summary | None, digits: int = 0, times: float = 1) -> str:
    """Write the median, and the range if it is visible. ``~`` marks a figure whose repeats were all disturbed."""
    if summary is None:
        return NOTHING
    middle, low, high = (f"{value * times:,.{digits}f}" for value in (summary.median, summary.low, summary.high))
    span = " (n = 1)" if summary.count == 1 else "" if low == high else f" ({low}–{high})"  # noqa: RUF001
    return f"{'~' if summary.noisy else ''}{middle}{span}"


def table(rows: Rows, title: str, names: Iterable[str], columns: Sequence[Column]) -> str:
    """Return a table with one line for each name that has a figure; empty without any."""
    cells = [[name, *(column.cell(rows, name) for column in columns)] for name in names]
    lines = [line for line in cells if {*line[1:]} != {NOTHING}]
    return markdown(["", *(column.head for column in columns)], lines, title) if lines else ""


def markdown(heads: Sequence[str], lines: Sequence[Sequence[str]], title: str = "") -> str:
    rule = ["---", *["---:"] * (len(heads) - 1)]
    text = "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *lines))
    return f"**{title}**\n\n{text}" if title else text


def conditions(redis_version: str, versions: Mapping[str, str], rtt_ms: float | None = None) -> str:
    """Return one sentence about the machine, the versions and the server of a run that starts now."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    cpus = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    distance = "" if rtt_ms is None else f", {rtt_ms:g} ms of round trip away"
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {len(cpus)} CPUs ({cpus[0] if cpus else 'unknown'}), CPython "
        f"{platform.python_version()}, Redis {redis_version} on loopback without persistence{distance}; {named}; load "
        f"average {os.getloadavg()[0]:.1f} before the run. Medians, with the range of the repeats. "
        "`~` marks a figure that other programs disturbed in each repeat."
    )


def save(path: Path, about: str, samples: Sequence[Sample]) -> None:
    path.write_text(json.dumps({"about": about, "samples": [sample.as_dict() for sample in samples]}, indent=1) + "\n")


def load(path: Path) -> tuple[str, list[Sample]]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content["about"], [Sample(**sample) for sample in content["samples"]]
