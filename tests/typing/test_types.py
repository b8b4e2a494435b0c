"""Both type checkers accept every right use, and report every wrong one and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
Checker: TypeAlias = Callable[[Path, Path], set[int]]
RIGHT, WRONG = HERE / "right_uses.py", HERE / "wrong_uses.py"


def mypy(path: Path, cache: Path) -> set[int]:
    """The lines that mypy reports."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", f"--cache-dir={cache}", str(path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode in {0, 1}, result.stdout + result.stderr
    lines = re.findall(rf"{path.name}:(\d+): error: (.*)", result.stdout)
    for line, message in lines:
        print(f"mypy {path.name}:{line}: {message}")
    return {int(line) for line, _ in lines}


def pyright(path: Path, _cache: Path) -> set[int]:
    """The lines that pyright reports."""
    settings = {
        "include": [str(path.relative_to(ROOT))],
        "extraPaths": ["src"],
        "pythonVersion": "3.11",
        "typeCheckingMode": "strict",
        "venvPath": str(Path(sys.prefix).parent),
        "venv": Path(sys.prefix).name,
    }
    # Beside pyproject.toml, because paths in it are relative to it; named by process, as tests run side by side.
    project = ROOT / f".pyright-{path.stem}.json"
    project.write_text(json.dumps(settings))
    try:
        command = [sys.executable, "-m", "pyright", "--outputjson", "--project", str(project)]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    finally:
        project.unlink()
    assert result.returncode in {0, 1}, result.stdout + result.stderr
    errors = [item for item in json.loads(result.stdout)["generalDiagnostics"] if item["severity"] == "error"]
    for item in errors:
        print(f"pyright {path.name}:{item['range']['start']['line'] + 1}: {item['message']}")
    return {item["range"]["start"]["line"] + 1 for item in errors}


CHECKERS = [pytest.param(mypy, id="mypy"), pytest.param(pyright, id="pyright")]


@pytest.mark.parametrize("check", CHECKERS)
def test_every_right_use_is_accepted(check: Checker, tmp_path: Path) -> None:
    assert check(RIGHT, tmp_path) == set()


def test_the_first_program_about_results_is_accepted(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "results.md").read_text()
    module, program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2]
    (tmp_path / "reports.py").write_text(module)
    (tmp_path / "program.py").write_text(program)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        f"--cache-dir={tmp_path / 'cache'}",
        "program.py",
        "reports.py",
    ]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("check", CHECKERS)
def test_every_wrong_use_is_reported_and_nothing_else(check: Checker, tmp_path: Path) -> None:
    marked = {number for number, line in enumerate(WRONG.read_text().splitlines(), 1) if line.endswith("# error")}
    assert len(marked) > 40
    reported = check(WRONG, tmp_path)
    assert {"missed": marked - reported, "beyond": reported - marked} == {"missed": set(), "beyond": set()}
