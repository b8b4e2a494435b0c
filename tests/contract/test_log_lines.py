"""A log line about a job has the job's fields on the record itself: the context may belong to another job."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "offsider"
LEVELS = {"debug", "info", "warning", "error", "critical", "log"}
#: Messages that name one job.
ONE_JOB = re.compile(r"JID-%s|\bjob %s|\ba job of queue %s|\ba job that is due")
#: Periodic jobs are entries of a table, and names of methods are none.
NO_JOB = re.compile(r"^periodic job %s(?!: pushed)|^%s\.%s has no method")


def lines() -> list[tuple[str, ast.Call, str]]:
    found: list[tuple[str, ast.Call, str]] = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS):
                continue
            if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "logger"):
                continue
            texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if texts:
                found.append((f"{path.relative_to(SOURCE)}:{node.lineno}", node, texts[0]))
    return found


ABOUT_ONE_JOB = [line for line in lines() if ONE_JOB.search(line[2]) and not NO_JOB.search(line[2])]


def test_log_lines_about_jobs_are_found():
    assert len(ABOUT_ONE_JOB) >= 5


@pytest.mark.parametrize("place, call, text", ABOUT_ONE_JOB, ids=[place for place, _, _ in ABOUT_ONE_JOB])
def test_a_line_about_a_job_has_fields_of_its_own(place, call, text):
    assert any(keyword.arg == "extra" for keyword in call.keywords), f"{place}: {text}"
