"""Both type checkers accept every right use, and report every wrong one and nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RIGHT, WRONG = HERE / "right_uses.py", HERE / "wrong_uses.py"
#: Name of a file and number of a line.
Place: TypeAlias = tuple[str, int]
Checker: TypeAlias = Callable[[Sequence[Path], Path], set[Place]]


def mypy(paths: Sequence[Path], folder: Path) -> set[Place]:
    """The lines that mypy reports; ``folder`` is on its path."""
    options = ["--strict", "--no-error-summary", f"--cache-dir={folder / 'cache'}"]
    command = [sys.executable, "-m", "mypy", *options, *map(str, paths)]
    environ = os.environ | {"MYPYPATH": f"src{os.pathsep}{folder}"}
    result = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert result.returncode in {0, 1}, result.stdout + result.stderr
    print(result.stdout)
    return {(Path(path).name, int(line)) for path, line in re.findall(r"(\S+\.py):(\d+): error: ", result.stdout)}


def pyright(paths: Sequence[Path], folder: Path) -> set[Place]:
    """The lines that pyright reports; ``folder`` is on its path."""
    settings = {
        "include": [os.path.relpath(path, ROOT) for path in paths],
        "extraPaths": ["src", str(folder)],
        "pythonVersion": "3.11",
        "typeCheckingMode": "strict",
        "venvPath": str(Path(sys.prefix).parent),
        "venv": Path(sys.prefix).name,
    }
    # Beside pyproject.toml, because paths in it are relative to it.
    project = ROOT / ".pyright-typing.json"
    project.write_text(json.dumps(settings))
    try:
        command = [sys.executable, "-m", "pyright", "--outputjson", "--project", str(project)]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    finally:
        project.unlink()
    assert result.returncode in {0, 1}, result.stdout + result.stderr
    report = json.loads(result.stdout)
    assert report["summary"]["filesAnalyzed"] == len(paths)
    errors = [item for item in report["generalDiagnostics"] if item["severity"] == "error"]
    for item in errors:
        print(f"{item['file']}:{item['range']['start']['line'] + 1}: {item['message']}")
    return {(Path(item["file"]).name, item["range"]["start"]["line"] + 1) for item in errors}


@pytest.fixture
def program(tmp_path: Path) -> list[Path]:
    """The first program of the page about results, and the module that it imports."""
    page = (ROOT / "docs" / "results.md").read_text()
    paths = [tmp_path / "reports.py", tmp_path / "program.py"]
    for path, text in zip(paths, re.findall(r"```python\n(.*?)```", page, re.DOTALL), strict=False):
        path.write_text(text)
    return paths


@pytest.mark.parametrize("check", [mypy, pyright], ids=["mypy", "pyright"])
def test_every_wrong_use_is_reported_and_nothing_else(check: Checker, program: list[Path], tmp_path: Path) -> None:
    lines = enumerate(WRONG.read_text().splitlines(), 1)
    marked = {(WRONG.name, number) for number, line in lines if line.endswith("# error")}
    assert len(marked) > 40
    reported = check([RIGHT, WRONG, *program], tmp_path)
    assert {"missed": marked - reported, "beyond": reported - marked} == {"missed": set(), "beyond": set()}
