"""The curves of `bench scale`: every one is measured in a quick run, and the tables and the chart of their figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.compare import page as compare_page
from bench.compare.stats import Rows, Sample
from bench.scale import page
from bench.scale.curves import CURVES
from bench.scale.lines import Panel, chart

ROOT = Path(__file__).resolve().parents[2]
HEAD = "| {} | "
SVG = "{http://www.w3.org/2000/svg}"


def samples(curve: str, figures: dict[int, dict[str, float]]) -> list[Sample]:
    return [Sample(curve, str(value), 0, of) for value, of in figures.items()]


@pytest.mark.needs("redis-server")
def test_a_quick_run_measures_every_figure_of_every_curve(tmp_path: Path):
    file = tmp_path / "scale.json"
    command = [sys.executable, "-m", "bench.scale", "--quick", "--json", str(file)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert run.returncode == 0, run.stderr
    rows = Rows(compare_page.load(file)[1])
    for curve in CURVES:
        for name in curve.figures:
            [(value, figure)] = page.points(rows, curve, name)
            assert value in curve.quick
            assert figure >= 0
        assert page.points(rows, curve, "worker_us")[0][1] > 1
        assert page.points(rows, curve, "pickup_p50_ms")[0][1] > 0.01
        assert page.points(rows, curve, "stored_bytes")[0][1] > 150
        assert HEAD.format(curve.title) in run.stdout


def test_a_curve_is_flat_up_to_a_ratio():
    rows = Rows(
        samples(
            "length",
            {
                1_000: {"worker_us": 10.0, "server_us": 3.0, "pickup_p50_ms": 0.5},
                10_000: {"worker_us": 12.9, "server_us": 4.0, "pickup_p50_ms": 0.5},
                100_000: {"worker_us": 10.5, "server_us": 12.0, "pickup_p50_ms": 0.6},
            },
        )
    )
    [curve] = page.measured(rows)
    assert page.verdict(rows, curve) == (
        "Flat: CPU of the worker, push to start. Not flat: scripts of the server (largest 4.0 times the smallest)."
    )


def test_the_page_gets_a_table_for_each_measured_curve(tmp_path: Path):
    file, image = tmp_path / "scale.md", tmp_path / "scale.svg"
    file.write_text(page.PAGE.read_text())
    figures = dict.fromkeys(page.HEADS, 1234.5)
    rows = Rows([sample for curve in CURVES for sample in samples(curve.name, {1: figures, 2_000_000: figures})])
    about = {"date": "2026-11-24", "cpus": 2, "cpu": "a CPU", "python": "3.11.7", "redis": "7.0.15", "rounds": 3}
    page.write(about | {"load": [0.5, 1.5]}, rows, file, image)
    text = file.read_text()
    for curve in CURVES:
        assert f"| {curve.title} | CPU of the worker, us a job | " in text
    assert text.count("\n| 2,000,000 | 1,234.5 | 1,234.5 | 1,234.50 | ") == len(CURVES)
    assert "medians of 3 rounds" in text
    assert len(ET.parse(image).findall(f"{SVG}g")) == len(CURVES)


def test_a_line_of_the_chart_rises_with_its_values():
    text = chart([Panel("Jobs", [[(1, 1.0), (1_000, 1.0)], [(1, 1.0), (1_000, 3.0)]])], ["a", "b"], description="d")
    flat, rising = (line.get("points", "") for line in ET.fromstring(text).iter(f"{SVG}polyline"))
    heights = [[float(point.split(",")[1]) for point in line.split()] for line in (flat, rising)]
    assert heights[0][0] == heights[0][1] == heights[1][0]
    assert heights[1][1] < heights[1][0]
    assert {"1k", "1x", "4x"} <= {element.text for element in ET.fromstring(text).iter(f"{SVG}text")}
