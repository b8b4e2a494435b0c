"""The public surface: complete, sorted, typed as it behaves."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import offsider

SOURCE = Path(offsider.__file__).parent
WITH_ALL = sorted(path for path in SOURCE.rglob("*.py") if "\n__all__ = " in path.read_text())


@pytest.mark.parametrize("name", offsider.__all__)
def test_every_public_name_exists(name):
    assert getattr(offsider, name) is not None


@pytest.mark.parametrize("path", WITH_ALL, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_all_is_sorted(path):
    (listed,) = re.findall(r"^__all__ = (\[.*?\])", path.read_text(), re.MULTILINE | re.DOTALL)
    names = ast.literal_eval(listed)
    # Constants, then classes, then functions, as the linter sorts them.
    assert sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name)) == names


def test_type_checkers_see_exactly_the_public_names():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (alias.name, node.module) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert {name for name, _ in seen} == set(offsider.__all__)
    for name, module in seen:
        assert getattr(importlib.import_module(module or ""), name) is getattr(offsider, name)


def test_the_decorator_job_is_not_hidden_by_the_package_of_the_same_name():
    importlib.import_module("offsider.jobs.function")
    assert offsider.job is importlib.import_module("offsider.jobs.function").job


def test_an_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'jbo'"):
        offsider.jbo  # noqa: B018 - asking is the test
    assert set(offsider.__all__) <= set(dir(offsider))
