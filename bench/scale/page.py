"""Writes tables and chart of the curves into docs/internals/scale.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.compare.page import placed
from bench.compare.stats import Rows, Sample
from bench.scale.curves import CURVES, Curve
from bench.scale.lines import Panel, chart

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "scale.md"
CHART = ROOT / "docs" / "images" / "scale.svg"
#: A curve is called flat up to this ratio of its largest to its smallest value; pick-ups vary more from run to run.
FLAT, FLAT_PICKUP = 1.3, 2.0

#: Head and decimal digits of each figure.
HEADS = {
    "worker_us": ("CPU of the worker, us a job", 1),
    "server_us": ("scripts of the server, us a job", 1),
    "pickup_p50_ms": ("push to start p50, ms", 2),
    "pickup_p95_ms": ("p95, ms", 2),
    "longest_ms": ("longest command, ms", 1),
    "worker_mb": ("worker, MB", 0),
    "server_mb": ("server, MB", 1),
    "stored_bytes": ("server, bytes a job", 0),
    "scheduled_bytes": ("server, bytes a scheduled job", 0),
    "push_us": ("CPU of a bulk push, us a job", 1),
    "idle_server_ms": ("idle: CPU of the server, ms per s", 1),
    "idle_requests": ("idle: reads of the server's sockets per s", 0),
    "idle_worker_ms": ("idle: CPU of the worker, ms per s", 1),
    "boot_s": ("start to first job, s", 2),
    "woken_p50_ms": ("push to wake-up of a waiting worker p50, ms", 2),
    "beat_bytes": ("published by a heartbeat, bytes", 0),
    "due_p50_ms": ("due to start p50, ms", 2),
}
DRAWN = ("worker_us", "server_us", "pickup_p50_ms", "worker_mb")
#: The figures that may be flat, as sentences name them.
NAMES = {
    "worker_us": "CPU of the worker",
    "server_us": "scripts of the server",
    "pickup_p50_ms": "push to start",
    "worker_mb": "memory of the worker",
    "stored_bytes": "bytes of a job",
    "idle_server_ms": "CPU of an idle server",
}


def brief(sample: Sample) -> str:
    """Return the figures of a sample in one line."""
    return sample.error or "  ".join(f"{name} {value:.2f}" for name, value in sample.figures.items())


def report(about: Mapping[str, Any], rows: Rows) -> str:
    """Return the report for a terminal."""
    parts = [f"{curve.title}\n\n{part(rows, curve)}" for curve in measured(rows)]
    return "\n\n".join((introduction(about), *parts))


def measured(rows: Rows) -> list[Curve]:
    return [curve for curve in CURVES if points(rows, curve, "worker_us")]


def introduction(about: Mapping[str, Any]) -> str:
    before, after = about["load"]
    return (
        f"{about['date']}, {about['cpus']} CPUs ({about['cpu']}), CPython {about['python']}, Redis {about['redis']} "
        f"on loopback without persistence; medians of {about['rounds']} rounds, which alternated between all points. "
        f"The load average was {before:.1f} before the run and {after:.1f} at its end. A curve is called flat if its "
        f"largest value is at most {FLAT:g} times the smallest, {FLAT_PICKUP:g} times for the time from push to start."
    )


def part(rows: Rows, curve: Curve) -> str:
    """Return the table of a curve, and which of its figures are flat."""
    lines = [
        "| " + " | ".join((curve.title, *(HEADS[name][0] for name in curve.figures))) + " |",
        "| ---: " * (len(curve.figures) + 1) + "|",
    ]
    for value in values(rows, curve):
        cells = [_written(rows, curve, value, name) for name in curve.figures]
        lines.append("| " + " | ".join((f"{value:,}", *cells)) + " |")
    return "\n".join(lines) + "\n\n" + verdict(rows, curve)


def verdict(rows: Rows, curve: Curve) -> str:
    """Say which figures are flat, and how much the others vary."""
    flat: list[str] = []
    steep: list[str] = []
    for name, head in NAMES.items():
        found = [value for _, value in points(rows, curve, name) if value > 0]
        if name not in (*curve.figures, *DRAWN) or not found:
            continue
        ratio = max(found) / min(found)
        if ratio <= (FLAT_PICKUP if name.startswith("pickup") else FLAT):
            flat.append(head)
        else:
            steep.append(f"{head} (largest {ratio:,.1f} times the smallest)")
    sentences = ((f"Flat: {', '.join(flat)}.", flat), (f"Not flat: {', '.join(steep)}.", steep))
    return " ".join(sentence for sentence, named in sentences if named)


def values(rows: Rows, curve: Curve) -> list[int]:
    return sorted(map(int, rows.contestants(curve.name)))


def points(rows: Rows, curve: Curve, name: str) -> list[tuple[int, float]]:
    """Return value and median of each point that has the figure."""
    pairs = [(value, rows.value(curve.name, str(value), name)) for value in values(rows, curve)]
    return [(value, figure) for value, figure in pairs if figure is not None]


def _written(rows: Rows, curve: Curve, value: int, name: str) -> str:
    found = rows.value(curve.name, str(value), name)
    return "" if found is None else f"{found:,.{HEADS[name][1]}f}"


def draw(rows: Rows, path: Path) -> None:
    """Write the chart of all measured curves; each line is relative to its first point."""
    panels = [Panel(curve.title, [_relative(rows, curve, name) for name in DRAWN]) for curve in measured(rows)]
    names = [NAMES[name] for name in DRAWN]
    path.write_text(chart(panels, names, description="cost, latency and memory relative to the smallest installation"))


def _relative(rows: Rows, curve: Curve, name: str) -> list[tuple[float, float]]:
    found = points(rows, curve, name)
    return [(value, figure / found[0][1]) for value, figure in found]


def write(about: Mapping[str, Any], rows: Rows, page: Path = PAGE, image: Path = CHART) -> None:
    """Put the tables of the measured curves between the markers of the page, and write the chart."""
    text = placed(page.read_text(), introduction(about), "about")
    for curve in measured(rows):
        text = placed(text, part(rows, curve), curve.name)
    page.write_text(text)
    draw(rows, image)
