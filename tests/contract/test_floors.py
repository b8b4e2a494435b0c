"""The floors of the house: who may import whom (the contracts themselves are in pyproject.toml)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_no_module_imports_from_a_floor_above_its_own():
    lint_imports = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run(
        [lint_imports, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
