"""Check a change quickly: lint, types, and the affected tests, those with the shortest chain of imports first.

    python3 dev.py quick [REVISION]

1. The change is the difference from REVISION (default: HEAD; its parent if nothing is uncommitted), including untracked
   files.
2. mypy runs as a daemon, which exits after an hour without use; pyright checks only the changed files.
3. The distance of a test file is the shortest chain of imports to a changed file. Groups of test files run in order of
   distance on one server, at least one group, until the time is up. The last line counts the files that ran;
   the exit code is 0 if all of them ran and passed.
4. Process, browser and interop tests start whole programs and take minutes: they run only if they changed themselves.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
ROOTS = (ROOT / "src", ROOT)
QUICK = ("unit", "redis", "contract", "bench")
#: No group of test files starts after this time, so that the whole run ends within 90 seconds.
BUDGET_SECONDS = 60
GROUP = 20


def changed(revision: str | None) -> set[Path]:
    if revision is None:
        revision = "HEAD" if _git("status", "--porcelain") else "HEAD~1"
    names = [*_git("diff", "--name-only", revision), *_git("ls-files", "--others", "--exclude-standard")]
    return {ROOT / name for name in names}


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def sources() -> list[Path]:
    return [path for folder in ("src", "tests", "bench", "scripts") for path in (ROOT / folder).rglob("*.py")]


def affected(change: Iterable[Path]) -> list[tuple[int, Path]]:
    """Return test files sorted by their distance from the change."""
    importers: dict[Path, set[Path]] = {}
    for path in sources():
        for imported in imports_of(path):
            importers.setdefault(imported, set()).add(path)
    distances = {path: 0 for each in change for path in _python_files_of(each)}
    edge = [*distances]
    while edge:
        further = {importer for path in edge for importer in importers.get(path, ()) if importer not in distances}
        distances |= dict.fromkeys(further, distances[edge[0]] + 1)
        edge = [*further]
    tests = [(distances[path], path) for path in distances if path.is_relative_to(TESTS) and path.name[:5] == "test_"]
    return sorted((distance, path) for distance, path in tests if path.is_file() and (distance == 0 or _is_quick(path)))


def _is_quick(path: Path) -> bool:
    return path.relative_to(TESTS).parts[0] in QUICK


def _python_files_of(path: Path) -> Iterator[Path]:
    """Return the file itself; for a docs page the docs tests, for other files the modules that contain its name."""
    if path == ROOT / "dev.py":
        yield ROOT / "tests" / "contract" / "test_dev.py"
    elif path.suffix == ".py":
        yield path
    elif path.suffix == ".md":
        yield from (ROOT / "tests" / "docs").glob("test_*.py")
    else:
        names = (f'"{path.stem}"', f'"{path.name}"')
        folders = ("src",) if path.is_relative_to(ROOT / "src") else ("src", "tests")
        modules = (module for folder in folders for module in (ROOT / folder).rglob("*.py"))
        yield from (each for each in modules if any(name in each.read_text() for name in names))


@cache
def imports_of(path: Path) -> frozenset[Path]:
    """Return the project's files that a file imports, including conftest.py of a test's folders."""
    found = set[Path]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {file for alias in node.names if (file := module_file(alias.name))}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {file for alias in node.names if (file := defining_file(node.module, alias.name))}
    if path.name.startswith("test_"):
        found |= {folder / "conftest.py" for folder in path.parents if (folder / "conftest.py").is_file()}
    return frozenset(found - {path})


def defining_file(module: str, name: str) -> Path | None:
    """Resolve ``from module import name``, following re-exports of packages."""
    file = module_file(f"{module}.{name}") or module_file(module)
    if file is not None and file.name == "__init__.py":
        return _re_exports(file).get(name, file)
    return file


@cache
def _re_exports(package: Path) -> dict[str, Path]:
    nodes = [node for node in ast.walk(ast.parse(package.read_text())) if isinstance(node, ast.ImportFrom)]
    named = [(alias.asname or alias.name, node.module or "") for node in nodes for alias in node.names]
    return {name: file for name, module in named if (file := module_file(module))}


@cache
def module_file(module: str) -> Path | None:
    for root in ROOTS:
        path = root.joinpath(*module.split("."))
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return file
    return None


def run(*command: str) -> bool:
    """Run a program in the project's folder; True if it succeeded."""
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def is_typed(path: Path) -> bool:
    return path.suffix == ".py" and path.is_file() and not path.is_relative_to(ROOT / "tests")


def main() -> int:
    ends = time.monotonic() + BUDGET_SECONDS
    change = changed(sys.argv[1] if len(sys.argv) > 1 else None)
    passed = [
        run("ruff", "check", "--no-cache"),
        run("ruff", "format", "--check"),
        run("lint-imports", "--no-logo"),
        run("dmypy", "run", "--timeout", "3600"),
    ]
    if typed := sorted(str(path) for path in change if is_typed(path)):
        passed.append(run("pyright", *typed))
    tests = [str(path) for _distance, path in affected(change)]
    ran = 0
    while ran < len(tests) and (ran == 0 or time.monotonic() < ends):
        passed.append(run("pytest", "-q", "-n", "4", "--dist", "worksteal", *tests[ran : ran + GROUP]))
        ran += GROUP
    verdict = "FAILED" if not all(passed) else "passed" if ran >= len(tests) else "passed in part"
    print(f"quick: {verdict}, {min(ran, len(tests))} of {len(tests)} affected test files", flush=True)
    return 0 if verdict == "passed" else 1


if __name__ == "__main__":
    sys.exit(main())
