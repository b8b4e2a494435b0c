"""The curves of `bench scale`: every one is measured in a quick run, and printed as a table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.report import Rows, Sample
from bench.scale.curves import CURVES, Curve

ROOT = Path(__file__).resolve().parents[2]


def figure(rows: Rows, curve: Curve, name: str) -> float:
    found = rows.summary(curve.name, str(curve.quick[0]), name)
    assert found is not None, name
    return found.median


@pytest.mark.needs("redis-server")
@pytest.mark.timeout(320)
def test_a_quick_run_measures_every_figure_of_every_curve(tmp_path: Path):
    file = tmp_path / "scale.json"
    command = [sys.executable, "-m", "bench.scale", "--quick", "--json", str(file)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    rows = Rows(Sample(**sample) for sample in json.loads(file.read_text())["samples"])
    for curve in CURVES:
        for name in curve.figures:
            assert figure(rows, curve, name) >= 0
        assert figure(rows, curve, "worker_us") > 1
        assert figure(rows, curve, "pickup_p50_ms") > 0.01
        assert figure(rows, curve, "stored_bytes") > 150
        assert f"**{curve.title}**" in run.stdout
