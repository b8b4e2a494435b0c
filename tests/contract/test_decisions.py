"""The delivery rules that code and tests cite are on the page of decisions, with the modules that keep them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "internals" / "decisions.md"
CITED = re.compile(r"\brules? (\d+(?:(?:, | and )\d+)*)")
ROW = re.compile(r"^\| ((?:\d+(?:, )?)+) \| (.+) \| (.*) ?\|$", re.MULTILINE)


def rows() -> dict[int, tuple[str, list[str]]]:
    """Number of a rule -> its text, and the modules that implement it."""
    found = {}
    for numbers, words, places in ROW.findall(PAGE.read_text()):
        for number in numbers.split(", "):
            found[int(number)] = (words, re.findall("`([^`]+)`", places))
    return found


def test_every_rule_has_its_line():
    assert set(rows()) == set(range(1, 32))


def test_a_rule_that_is_cited_leads_somewhere():
    cited: dict[int, Path] = {}
    for folder in ("src", "tests", "bench", "docs"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in {".py", ".lua", ".md"}:
                for numbers in CITED.findall(path.read_text()):
                    cited |= dict.fromkeys(map(int, re.findall(r"\d+", numbers)), path)
    assert cited
    assert not {number: path for number, path in cited.items() if number not in rows()}


def test_the_modules_that_implement_a_rule_exist():
    for number, (words, places) in rows().items():
        assert places or words.startswith("Later"), number
        for place in places:
            assert (ROOT / "src" / "offsider" / place).exists(), (number, place)
