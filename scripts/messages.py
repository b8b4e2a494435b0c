"""List every text that users read, for a reader who judges its English: ``python scripts/messages.py > messages.txt``.

The list has each string of three words or more in the code, apart from docstrings: log messages, errors, findings of
the doctor, help of options. Then the help of commands, and the strings of the web UI. What the program fills in is in
braces.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "offsider"
CATALOG = SOURCE / "screens" / "locales" / "en.po"
SENTENCE = re.compile(r"\S+ \S+ \S+")


def main() -> int:
    """Print the list: place, tab, text."""
    for path in sorted(SOURCE.rglob("*.py")):
        for line, text in sorted(texts(ast.parse(path.read_text("utf-8")))):
            print(f"{path.relative_to(SOURCE)}:{line}\t{' '.join(text.split())}")
    for text in re.findall(r'^msgstr(?:\[\d\])? "(.+)"$', CATALOG.read_text("utf-8"), re.MULTILINE):
        print(f"{CATALOG.relative_to(SOURCE)}\t{text}")
    return 0


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            inner.add(id(node.value))  # a docstring
        elif isinstance(node, ast.FunctionDef) and any("command" in ast.unparse(each) for each in node.decorator_list):
            yield node.lineno, ast.get_docstring(node) or ""
        text = "" if id(node) in inner else written(node)
        if SENTENCE.search(text):
            yield node.lineno, text  # type: ignore[attr-defined]  # a string has a place


def written(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(written(part) or f"{{{ast.unparse(part.value)}}}" for part in node.values)  # type: ignore[attr-defined]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


if __name__ == "__main__":
    sys.exit(main())
