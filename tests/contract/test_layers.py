"""The layers: allowed imports between packages (the contracts themselves are in pyproject.toml)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
# The package names its public classes for type checkers, and the worker logs the package's version.
PACKAGE = {"offsider", *(f"offsider.worker.{name}" for name in ("assembly", "embed", "heartbeat", "launcher"))}


def test_no_module_imports_from_a_layer_above_its_own():
    lint_imports = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run(
        [lint_imports, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("by_types_too, expected", [(False, []), (True, [PACKAGE])])
def test_only_the_listed_import_cycles_exist(by_types_too, expected):
    graph = grimp.build_graph("offsider", exclude_type_checking_imports=not by_types_too, cache_dir=None)
    reached = {module: {module, *graph.find_upstream_modules(module)} for module in graph.modules}
    rings = {frozenset(other for other in reached[one] if one in reached[other]) for one in graph.modules}
    assert sorted((set(ring) for ring in rings if len(ring) > 1), key=sorted) == expected
