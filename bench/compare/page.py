"""Writes the figures into the performance page, the README and the chart."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.compare.bars import OURS, bars
from bench.compare.chart import Panel, chart
from bench.compare.contestant import Contestant
from bench.compare.stats import Rows, Sample
from bench.compare.tables import all_tables, settings_table, short_table

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "performance.md"
README = ROOT / "README.md"
CHART = ROOT / "docs" / "images" / "compare.svg"
PART = r"(<!-- {0}: begin[^\n]*-->\n).*?(<!-- {0}: end -->)"

PANELS = (
    ("No-op jobs per second, one process (longer is better)", "drain", "rate", 0, True),
    ("Jobs of 10 ms per second, one process, concurrency 100 (longer is better)", "sleep100", "rate", 0, True),
    ("Pushed one by one, jobs per second (longer is better)", "push", "rate", 0, True),
    ("From push to start, idle worker, p50 in ms (shorter is better)", "latency", "p50", 2, False),
)


def about(redis_version: str, versions: Mapping[str, str], rtt_ms: float | None = None) -> dict[str, Any]:
    """Return the conditions of the run: date, machine, versions, and the round trip to the server."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "python": platform.python_version(),
        "redis": redis_version,
        "cpus": len(_cpus()),
        "cpu": next(iter(_cpus()), "an unknown CPU"),
        "versions": dict(versions),
        "rtt_ms": rtt_ms,
    }


def _cpus() -> list[str]:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    return [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]


def save(path: Path, surroundings: Mapping[str, Any], samples: Sequence[Sample]) -> None:
    content = {"about": dict(surroundings), "samples": [sample.as_dict() for sample in samples]}
    path.write_text(json.dumps(content, indent=1) + "\n")


def load(path: Path) -> tuple[dict[str, Any], list[Sample]]:
    content = json.loads(path.read_text())
    return content["about"], [Sample(**sample) for sample in content["samples"]]


def report(surroundings: Mapping[str, Any], rows: Rows, contestants: Sequence[Contestant]) -> str:
    """Return the report for the performance page."""
    parts = [
        _introduction(surroundings),
        all_tables(rows, contestants),
        f"**Settings**\n\n{settings_table(contestants)}",
        "**Bars**\n\n```text\n" + "\n".join(str(bar) for bar in bars(rows)) + "\n```",
    ]
    return "\n\n".join(part for part in parts if part)


def _introduction(surroundings: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in surroundings["versions"].items())
    rtt_ms = surroundings.get("rtt_ms")
    distance = "" if rtt_ms is None else f", {rtt_ms:g} ms of round trip away"
    return (
        f"{surroundings['date']}, {surroundings['cpus']} CPUs ({surroundings['cpu']}), "
        f"CPython {surroundings['python']}, Redis {surroundings['redis']} on loopback without "
        f"persistence{distance}; {versions}. "
        "Medians, with the range of the repeats; log level WARN, except in the INFO column. "
        "`~` marks a figure that other programs disturbed in each repeat."
    )


def draw(rows: Rows, path: Path = CHART) -> None:
    panels = [
        Panel(title, _ordered(rows, test, figure, longest_first=longest_first), digits)
        for title, test, figure, digits, longest_first in PANELS
    ]
    path.write_text(chart(panels, highlight=OURS, description="offsider beside other job systems"))


def _ordered(rows: Rows, test: str, figure: str, *, longest_first: bool) -> list[tuple[str, float]]:
    found = [(name, rows.value(test, name, figure)) for name in rows.contestants(test)]
    known = [(name, value) for name, value in found if value is not None]
    return sorted(known, key=lambda bar: bar[1], reverse=longest_first)


def write(surroundings: Mapping[str, Any], rows: Rows, contestants: Sequence[Contestant]) -> None:
    """Put the report and the short table between the markers of their pages."""
    PAGE.write_text(placed(PAGE.read_text(), _with_chart(report(surroundings, rows, contestants), "../images")))
    README.write_text(placed(README.read_text(), _with_chart(short(surroundings, rows, contestants), "docs/images")))


def short(surroundings: Mapping[str, Any], rows: Rows, contestants: Sequence[Contestant]) -> str:
    """What the README has of it, with its heading."""
    return (
        "## Speed\n\n"
        f"One run on {surroundings['cpus']} CPUs, {surroundings['date']}: the same no-op or 10 ms jobs, server and "
        "concurrency for all systems. [All figures, settings and the method]"
        "(docs/internals/performance.md#beside-others).\n\n"
        f"{short_table(rows, contestants)}\n\n"
        "Jobs that have not run by then are not always lost: arq takes over the jobs of a dead worker after 310 s, "
        "Taskiq after 10 minutes. The linked page lists the settings of each system."
    )


def _with_chart(text: str, folder: str) -> str:
    if not CHART.exists():
        return text
    return f"{text}\n\n![offsider beside other job systems: bars of the figures above]({folder}/{CHART.name})"


def placed(page: str, text: str, part: str = "compare") -> str:
    """Return ``page`` with ``text`` between the markers of this part. ValueError if it has none."""
    found, count = re.subn(
        PART.format(part), lambda match: f"{match[1]}\n{text}\n\n{match[2]}", page, count=1, flags=re.DOTALL
    )
    if not count:
        raise ValueError(f"the page has no markers <!-- {part}: begin ... --> and <!-- {part}: end -->")
    return found
