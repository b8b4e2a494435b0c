"""Measure the size and the structure of src.

    python scripts/house.py [--places]

Prints the figures of the table in docs/internals/architecture.md. ``--places`` lists the large classes, and what the
last three count.

- Code lines exclude blank lines, comments and docstrings.
- A field is an attribute that a class assigns to itself in one of its methods or declares in its body.
- An import inside a function counts if it imports offsider.
- A callback is assigned after construction if an object other than its owner assigns it: a public attribute that the
  constructor of a public class annotates as a `Callable` or sets to a lambda.
- A place that writes an outcome is a call of `settle` of a fetcher.
- The tour counts the modules that the short tour in docs/internals/a-jobs-life.md names, not those under More to read.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "offsider"
TOUR = ROOT / "docs" / "internals" / "a-jobs-life.md"
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
#: Limits of a class.
LINES, METHODS, FIELDS = 250, 20, 12
CONSTRUCTORS = ("Processor", "Manager", "Executor")


def main() -> int:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
    scripts = sorted(SOURCE.rglob("*.lua"))
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in [*trees, *scripts])
    code = sum(len(code_lines(path, tree)) for path, tree in trees.items()) + sum(map(lua_lines, scripts))
    print(f"src: {lines:,} lines, {code:,} of code, {len(trees) + len(scripts)} files")
    files = [SOURCE / name for name in toured()]
    whole = sum(len(path.read_text("utf-8").splitlines()) for path in files)
    toured_code = sum(len(code_lines(path, trees[path])) if path in trees else lua_lines(path) for path in files)
    print(f"tour: {len(files)} files, {whole:,} lines, {toured_code:,} of code")
    sizes = [(node.end_lineno or 0) - node.lineno + 1 for _, node in classes(trees)]
    biggest = max(classes(trees), key=lambda item: (item[1].end_lineno or 0) - item[1].lineno)[1]
    counts = f"{max(sizes)} lines, {len(methods(biggest))} methods, {len(fields(biggest))} fields"
    print(f"biggest class: {biggest.name}, {counts}")
    large = [place for path, node in classes(trees) for place in above_limits(path, node)]
    print(f"classes above {LINES} lines, {METHODS} methods or {FIELDS} fields: {len(large)} of {len(sizes)}")
    print("fetchers asked for their class:", count(trees, r"isinstance\(.*Fetcher"))
    print("`entry is None`, or not:", count(trees, r"entry is (not )?None"))
    for name in CONSTRUCTORS:
        for _, node in classes(trees):
            if node.name == name:
                print(f"parameters of {name}: {parameters(node)}")
    known = callbacks(trees)
    late = [place for path, tree in trees.items() for place in assigned_late(path, tree, known)]
    print(f"callbacks assigned after construction: {len(late)}")
    writes = [place for path, tree in trees.items() for place in outcome_writes(path, tree)]
    print(f"places that write an outcome: {len(writes)}")
    inside = [place for path, tree in trees.items() for place in inner_imports(path, tree)]
    print(f"imports of ours inside functions: {len(inside)}")
    if "--places" in sys.argv:
        print(*large, *late, *writes, *inside, sep="\n")
    return 0


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


def toured() -> list[str]:
    """Return the modules in the short tour of a job's life, each once."""
    named: list[str] = []
    short, mark, _ = TOUR.read_text("utf-8").partition("\n## More to read\n")
    if not mark:
        raise LookupError(f"{TOUR} has no section More to read")
    for line in short.splitlines():
        if line.startswith("`") and re.match(r"`[a-z_/]+\.(py|lua)`", line):
            named += [name for name in re.findall(r"`([a-z_/]+\.(?:py|lua))`", line) if (SOURCE / name).exists()]
    return list(dict.fromkeys(named))


def classes(trees: dict[Path, ast.Module]) -> Iterator[tuple[Path, ast.ClassDef]]:
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield path, node


def methods(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [one for one in node.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]


def fields(node: ast.ClassDef) -> set[str]:
    own = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
    for method in methods(node):
        for inner in ast.walk(method):
            targets = inner.targets if isinstance(inner, ast.Assign) else [getattr(inner, "target", None)]
            for target in targets:
                for one in getattr(target, "elts", [target]):
                    if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "self":
                        own.add(one.attr)
    return own


def above_limits(path: Path, node: ast.ClassDef) -> Iterator[str]:
    lines, method_count, field_count = (node.end_lineno or 0) - node.lineno + 1, len(methods(node)), len(fields(node))
    if lines > LINES or method_count > METHODS or field_count > FIELDS:
        counts = f"{lines} lines, {method_count} methods, {field_count} fields"
        yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {counts}"


def parameters(node: ast.ClassDef) -> int:
    for method in methods(node):
        if method.name == "__init__":
            given = method.args
            return len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1
    return len([one for one in node.body if isinstance(one, ast.AnnAssign)])


def callbacks(trees: dict[Path, ast.Module]) -> set[str]:
    """Return the names of the public callbacks that constructors set."""
    found: set[str] = set()
    target: ast.expr
    for _, node in classes(trees):
        if node.name.startswith("_"):
            continue
        for inner in (inner for method in methods(node) if method.name == "__init__" for inner in ast.walk(method)):
            if isinstance(inner, ast.AnnAssign):
                target, is_one = inner.target, "Callable" in ast.unparse(inner.annotation)
            elif isinstance(inner, ast.Assign):
                target, is_one = inner.targets[0], isinstance(inner.value, ast.Lambda)
            else:
                continue
            if is_one and is_of_self(target) and not target.attr.startswith("_"):
                found.add(target.attr)
    return found


def assigned_late(path: Path, tree: ast.Module, names: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant):
            for one in (one for target in node.targets for one in getattr(target, "elts", [target])):
                if isinstance(one, ast.Attribute) and one.attr in names and not is_of_self(one):
                    yield f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(one)}"


def outcome_writes(path: Path, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and re.search(r"fetcher\.settle$", ast.unparse(node.func)):
            yield f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"


def is_of_self(node: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def count(trees: dict[Path, ast.Module], pattern: str) -> int:
    return sum(len(re.findall(pattern, path.read_text("utf-8"))) for path in trees)


def inner_imports(path: Path, tree: ast.Module) -> Iterator[str]:
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
