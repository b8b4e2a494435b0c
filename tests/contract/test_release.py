"""The release check finds missing parts. It installs nothing here: `python3 dev.py release --check` does."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("check_release", ROOT / "scripts" / "check_release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_is_complete_and_every_extra_has_a_smoke_test(check, wheel):
    files = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "offsider").rglob("*.py")}
    assert list(check.problems(wheel, files | {"offsider/py.typed"})) == []


def test_the_readme_names_every_extra():
    row = next(line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| Packages |"))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert sorted(re.findall(r"\[(\w+)\]", row)) == sorted({*extras} - {"dev"})


def test_a_missing_file_is_a_problem(check, wheel):
    assert list(check.problems(wheel, {"offsider/nothing.lua"})) == ["the wheel lacks offsider/nothing.lua"]
