"""The report of a program: its conditions, its samples in a file, and tables of their medians and ranges."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from statistics import median

NOTHING = "–"  # noqa: RUF001  # a dash, as a table has it


@dataclass(frozen=True)
class Sample:
    """One run.

    Attributes:
        figures: measured values; empty if it failed.
        noisy: other programs disturbed it.
        error: why it failed.
    """

    test: str
    contestant: str
    repeat: int
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    noisy: bool = False
    error: str = ""


@dataclass(frozen=True)
class Summary:
    """One figure of a row.

    Attributes:
        noisy: every repeat was disturbed, so the figure is from disturbed ones.
    """

    median: float
    low: float
    high: float
    count: int
    noisy: bool = False


class Rows:
    """All samples of a run of the program, by test and contestant."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._groups: dict[tuple[str, str], list[Sample]] = {}
        for sample in samples:
            self._groups.setdefault((sample.test, sample.contestant), []).append(sample)

    def contestants(self, test: str) -> list[str]:
        return [contestant for name, contestant in self._groups if name == test]

    def summary(self, test: str, contestant: str, figure: str) -> Summary | None:
        """Return the summary of a figure; None if no repeat has it."""
        samples = self._groups.get((test, contestant), [])
        having = [sample for sample in samples if figure in sample.figures]
        return summarise([(sample.figures[figure], sample.noisy) for sample in having])


def summarise(values: Sequence[tuple[float, bool]]) -> Summary | None:
    """Summarize pairs of value and noisiness; if there are quiet values, ignore the noisy ones."""
    quiet = [value for value, noisy in values if not noisy]
    used = quiet or [value for value, _ in values]
    if not used:
        return None
    return Summary(median(used), min(used), max(used), len(used), noisy=not quiet)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of sorted values: the nearest value that ``share`` of them do not exceed."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


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


def conditions(server: Path, versions: Mapping[str, str], rtt_ms: float | None = None) -> str:
    """Return one sentence about the machine, the versions and the server program of a run that starts now."""
    printed = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout.split()
    redis_version = f"{printed[0]} {printed[2].removeprefix('v=')}"
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    cpus = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    distance = "" if rtt_ms is None else f", {rtt_ms:g} ms of round trip away"
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {len(cpus)} CPUs ({cpus[0] if cpus else 'unknown'}), CPython "
        f"{platform.python_version()}, {redis_version} on loopback without persistence{distance}; {named}; load "
        f"average {os.getloadavg()[0]:.1f} before the run. Medians, with the range of the repeats. "
        "`~` marks a figure that other programs disturbed in each repeat."
    )


def save(path: Path, about: str, samples: Sequence[Sample]) -> None:
    path.write_text(json.dumps({"about": about, "samples": [asdict(sample) for sample in samples]}, indent=1) + "\n")
