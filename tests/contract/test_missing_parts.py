"""A part that is missing skips its tests with a reason, and under CI=true fails them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEST = """
import pytest
from tests import programs

programs.HOW_TO_GET["warp-drive"] = "apt-get install warp-drive"

@pytest.mark.needs("warp-drive")
def test_travel(): ...
"""


@pytest.mark.parametrize("ci,outcome", [("true", "1 error"), ("false", "1 skipped")])
def test_a_missing_part_is_seen(tmp_path, ci, outcome):
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_travel.py").write_text(TEST)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "-rsE", tmp_path],
        env=os.environ | {"CI": ci, "PYTHONPATH": str(ROOT), "OFFSIDER_TEST_SKIPS": str(tmp_path / "skips")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in ended.stdout
    assert "apt-get install warp-drive" in ended.stdout
    if "skipped" in outcome:
        skip = "1 x needs warp-drive: apt-get install warp-drive"
        assert ended.stdout.splitlines()[-1] == f"skipped: {skip}"
        assert (tmp_path / "skips").read_text() == f"{skip}\n"
