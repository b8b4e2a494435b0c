"""The parity page is correct: each row names existing tests, or the reason for none."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from scripts.write_status import README, ROOT, Row, rows, updated

ROWS = list(rows())


@cache
def names_in(path: Path) -> set[str]:
    """The tests of a file, as `test_x` and `TestY::test_x`."""
    tree = ast.parse(path.read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    names = {node.name for node in tree.body if isinstance(node, functions)}
    for group in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        names |= {f"{group.name}::{node.name}" for node in group.body if isinstance(node, functions)}
    return {name for name in names if name.rpartition("::")[2].startswith("test_")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_names_existing_tests_or_the_reason_for_none(row: Row):
    assert row.tests or row.reason, f"{row.name} {row.what}: {row.proof}"
    for test in row.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).is_file(), f"{row.name} {row.what}: {test}"
        assert name in names_in(ROOT / path), f"{row.name} {row.what}: {test}"


def test_no_row_is_duplicated_or_missing():
    assert [name for name, times in Counter(row.name for row in ROWS).items() if times > 1] == []
    numbers: dict[str, set[int]] = {}
    for row in ROWS:
        numbers.setdefault(row.name[0], set()).add(int(row.name[1:]))
    assert all(found == set(range(1, max(found) + 1)) for found in numbers.values())


def test_the_status_table_of_the_readme_is_current():
    assert updated(README.read_text()) == README.read_text()
