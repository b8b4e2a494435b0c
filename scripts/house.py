"""Measure the size and the structure of the project, and fail above a ceiling.

    python scripts/house.py [--places]

A ceiling is the figure that was reached: the project grows only by a decision, which changes `CEILINGS`. ``--places``
lists what the last figures count.

- Code lines exclude blank lines, comments and docstrings.
- Words of the docs are those of the pages, of the README and of the changelog.
- A circle is a group of modules that import each other, also for types or inside functions.
- A place that writes an outcome is a call of `settle` of a fetcher.
- The tour counts the modules that docs/internals/architecture.md names with their path.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "offsider"
TOUR = ROOT / "docs" / "internals" / "architecture.md"
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)

CEILINGS = {
    "src, lines of code": 49_048,
    "src, files": 501,
    "tests, lines of code": 65_091,
    "bench, lines of code": 6_900,
    "docs, words": 80_360,
    "tour, files": 25,
    "biggest class, lines": 291,
    "circles": 0,
    "class names used more than once": 8,
    "places that write an outcome": 1,
    "imports of ours inside functions": 18,
}


def main() -> int:
    trees = parsed("src/offsider")
    found = {
        "circles": [" ".join(circle) for circle in circles(trees)],
        "class names used more than once": repeated(trees),
        "places that write an outcome": list(outcome_writes(trees)),
        "imports of ours inside functions": list(inner_imports(trees)),
    }
    sizes = {f"{node.name}, {path.relative_to(ROOT)}": lines(node) for path, node in classes(trees)}
    biggest = max(sizes, key=lambda name: sizes[name])
    figures = {
        "src, lines of code": code("src/offsider"),
        "src, files": len(trees) + len(scripts("src/offsider")),
        "tests, lines of code": code("tests"),
        "bench, lines of code": code("bench"),
        "docs, words": sum(len(path.read_text("utf-8").split()) for path in pages()),
        "tour, files": len(toured()),
        "biggest class, lines": sizes[biggest],
        **{name: len(places) for name, places in found.items()},
    }
    for part in sorted(path for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"):
        print(f"  {part.name}: {code(part):,}")
    above = [name for name, figure in figures.items() if figure > CEILINGS[name]]
    for name, figure in figures.items():
        print(f"{name}: {figure:,} of at most {CEILINGS[name]:,}{'  TOO MANY' if name in above else ''}")
    if above or "--places" in sys.argv:
        print(f"biggest class: {biggest}")
        for name, places in found.items():
            print(f"{name}:", *places, sep="\n  ")
    return 1 if above else 0


def parsed(folder: str | Path) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted((ROOT / folder).rglob("*.py"))}


def scripts(folder: str | Path) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.lua"))


def pages() -> Iterator[Path]:
    yield from (ROOT / "docs").rglob("*.md")
    yield from (ROOT / "README.md", ROOT / "CHANGELOG.md")


def code(folder: str | Path) -> int:
    python = sum(len(code_lines(path, tree)) for path, tree in parsed(folder).items())
    return python + sum(map(lua_lines, scripts(folder)))


def code_lines(path: Path, tree: ast.Module) -> set[int]:
    """Return the numbers of the lines with code."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        if token.type not in NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                found.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


def lua_lines(path: Path) -> int:
    return sum(1 for line in path.read_text("utf-8").splitlines() if line.strip() and not line.strip().startswith("--"))


def toured() -> set[str]:
    """Return the modules that the page of the architecture names in the first paragraph of each step of the tour."""
    steps = TOUR.read_text("utf-8").partition("\n## More to read\n")[0].split("\n### ")[1:]
    named = {name for step in steps for name in re.findall(r"`([a-z_/]+\.(?:py|lua))`", step.split("\n\n")[1])}
    return {name for name in named if (SOURCE / name).exists()}


def classes(trees: dict[Path, ast.Module]) -> Iterator[tuple[Path, ast.ClassDef]]:
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield path, node


def lines(node: ast.ClassDef) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def repeated(trees: dict[Path, ast.Module]) -> list[str]:
    """Return the class names that several classes have."""
    counts = Counter(node.name for _, node in classes(trees))
    return sorted(f"{name} {count}" for name, count in counts.items() if count > 1)


def circles(trees: dict[Path, ast.Module]) -> list[list[str]]:
    """Return each group of modules that reach each other by imports."""
    names = {module_name(path): path for path in trees}
    imports = {name: set(imported(name, trees[path], names)) for name, path in names.items()}
    reached = {name: reachable(name, imports) for name in names}
    groups = {tuple(sorted(other for other in reached[name] if name in reached[other])) for name in names}
    return sorted(list(group) for group in groups if len(group) > 1)


def reachable(name: str, imports: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [*imports[name]]
    while waiting:
        found.add(one := waiting.pop())
        waiting += imports[one] - found
    return found


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def imported(name: str, tree: ast.Module, names: Iterable[str]) -> Iterator[str]:
    """Yield the modules of ours that a module imports; a package that holds the module does not count."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            wanted = [f"{node.module}.{one.name}" for one in node.names]
            wanted = [one if one in names else node.module for one in wanted]
        else:
            continue
        yield from (one for one in wanted if one in names and one != name and not name.startswith(f"{one}."))


def outcome_writes(trees: dict[Path, ast.Module]) -> Iterator[str]:
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "settle":
                call = ast.unparse(node)
                if "fetcher.settle(" in call:
                    yield f"{path.relative_to(ROOT)}:{node.lineno} {call}"


def inner_imports(trees: dict[Path, ast.Module]) -> Iterator[str]:
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.ImportFrom):
                        names = [inner.module or ""]
                    elif isinstance(inner, ast.Import):
                        names = [one.name for one in inner.names]
                    else:
                        continue
                    for name in names:
                        if name.startswith("offsider"):
                            yield f"{path.relative_to(ROOT)}:{inner.lineno} {name}"


if __name__ == "__main__":
    sys.exit(main())
