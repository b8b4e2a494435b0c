"""A FastAPI whose resolver has changed is reported by name and version."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

MISSING = """
import fastapi.dependencies.utils as utils
del utils.solve_dependencies
import offsider.fastapi.dependencies
"""
MORE = """
import fastapi.dependencies.utils as utils
def solve_dependencies(*, request, dependant, moon): ...
utils.solve_dependencies = solve_dependencies
from fastapi import Depends
from offsider.fastapi import inject
def a(): ...
@inject
def work(b=Depends(a)): ...
"""
WITHOUT = """
import sys
sys.modules["fastapi"] = None
from offsider.fastapi import CallerId, lifespan
from offsider.fastapi import inject
"""


@pytest.mark.parametrize(
    "program,message",
    [
        (MISSING, "cannot solve dependencies with FastAPI .*solve_dependencies.*upgrade offsider"),
        (MORE, "its resolver has a new parameter moon"),
        (WITHOUT, r'offsider\.fastapi needs another package: pip install "offsider\[fastapi\]"'),
    ],
)
def test_a_missing_or_changed_fastapi_is_explained(program, message):
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("offsider.core.errors.ConfigurationError: ")
    assert re.search(message, last), last
