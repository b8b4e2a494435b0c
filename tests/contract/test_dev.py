"""The one door to the tools keeps its promises: its words, and the aliases for them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = {"demo", "test", "lint", "types", "bench", "docs", "lock"}


def dev(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "dev.py", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_without_a_word_it_lists_them_all():
    ended = dev()
    assert ended.returncode == 0
    assert set(re.findall(r"dev\.py (\w+)", ended.stdout)) == WORDS


def test_a_word_it_does_not_know_is_an_error():
    assert dev("tset").returncode == 2


def test_make_has_an_alias_for_every_word():
    assert set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) == WORDS


def test_it_needs_nothing_but_the_standard_library():
    imported = re.findall(r"^(?:import|from) (\w+)", (ROOT / "dev.py").read_text(), re.MULTILINE)
    assert set(imported) <= sys.stdlib_module_names


def test_ci_runs_the_same_word_as_people_do():
    text = (ROOT / ".ci" / "run").read_text()
    assert "export CI=true" in text
    assert "exec python3 dev.py test" in text
