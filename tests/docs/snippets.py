"""Finding the code blocks of a page, and the comment above a block.

A block is run or checked by its language (see run_page.py). A comment on the line above changes that:

    <!-- snippet: skip REASON -->      leave it alone; the reason is shown to readers of the source
    <!-- snippet: file jobs.py -->     write it into the page's folder under this name, do not run it
    <!-- snippet: run -->              bash: run it, and not only look at its `offsider` lines
    <!-- snippet: pytest -->           python: run it as a test file
    <!-- snippet: config NAME -->      toml, yaml: load it as the configuration file NAME
    <!-- snippet: raises NAME -->      python: it ends with this exception
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- snippet: (?P<word>\w+) ?(?P<rest>[^\n]*?) -->\s*\Z")
WORDS = {"", "skip", "file", "run", "pytest", "config", "raises"}


@dataclass(frozen=True)
class Snippet:
    """One code block. ``line`` is where its text begins, counted from 1."""

    language: str
    text: str
    line: int
    word: str = ""
    rest: str = ""


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def snippets(page: str) -> list[Snippet]:
    return [_snippet(page, found) for found in FENCE.finditer(page)]


def _snippet(page: str, found: re.Match[str]) -> Snippet:
    line = page.count("\n", 0, found.start("text")) + 1
    mark = MARK.search(page, 0, found.start())
    word, rest = (mark["word"], mark["rest"]) if mark else ("", "")
    if word not in WORDS:
        raise ValueError(f"line {line}: unknown snippet mark {word!r}, expected one of {sorted(WORDS)}")
    if word == "skip" and not rest:
        raise ValueError(f"line {line}: `snippet: skip` needs a reason")
    text = re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE)
    return Snippet(found["language"], text, line, word, rest)
