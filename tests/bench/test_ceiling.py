"""`bench ceiling`: every kind runs all jobs, and the shares decide about the exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import ceiling

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.needs("redis-server")
def test_every_kind_is_measured():
    command = [sys.executable, "-m", "bench.ceiling", "--rounds", "1", "--jobs", "400", "--rtt", "0.5"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert run.returncode in {0, 1}, run.stderr
    for kind in ceiling.KINDS:
        assert f"\n{kind} " in run.stdout
    assert "share of bare threads" in run.stdout


def test_a_missed_aim_is_marked_and_sets_the_exit_code(capsys: pytest.CaptureFixture[str]):
    figures = {
        ceiling.BARE_THREADS: 9_900.0,
        ceiling.WORKER_THREADS: 9_500.0,
        ceiling.BARE_COROUTINES: 9_800.0,
        ceiling.WORKER_COROUTINES: 9_600.0,
    }
    assert ceiling.report([figures]) == 0
    assert ceiling.report([figures | {ceiling.WORKER_COROUTINES: 9_400.0}]) == 1
    shown = capsys.readouterr().out
    assert "fail    0.940  >= 0.95  coroutines" in shown
