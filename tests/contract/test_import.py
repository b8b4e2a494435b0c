"""What `import offsider` costs and brings: little, and nothing that is missing on other systems."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "offsider"
MODULES = sorted(SOURCE.rglob("*.py"))
# Missing on Windows, where at least pushing and testing jobs have to work.
POSIX_ONLY = {"curses", "fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
# Processor time: a busy machine must not fail the test, and the promise does not include waiting for the disk.
TIMED = "from time import process_time as now; begun = now(); import offsider; print(now() - begun)"
LISTED = "import sys; before = set(sys.modules); import offsider; print(*set(sys.modules) - before)"


def python(program: str) -> str:
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    return subprocess.check_output([sys.executable, "-c", program], env=quiet, text=True)


def test_importing_offsider_takes_less_than_15_ms():
    assert min(float(python(TIMED)) for _ in range(7)) < 0.015


def test_importing_offsider_brings_no_other_package_and_nothing_posix():
    brought = {name.partition(".")[0] for name in python(LISTED).split()}
    assert not brought & {"redis", "click", "rich", "asyncio", "logging", "ssl"}
    assert not brought & POSIX_ONLY


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_posix_only_modules_are_imported_inside_functions(path):
    assert not imported_at_once(ast.parse(path.read_text())) & POSIX_ONLY


def imported_at_once(tree: ast.Module) -> set[str]:
    """Top names of the modules that are imported when the file is, `if TYPE_CHECKING:` and `try:` left out."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names
