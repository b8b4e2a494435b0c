"""Write the README's status table from docs/internals/parity.md; ``--check`` only reports whether it is outdated."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARITY = ROOT / "docs" / "internals" / "parity.md"
README = ROOT / "README.md"
BEGIN = "<!-- status: begin, written by `python3 dev.py docs` -->"
END = "<!-- status: end -->"
NO_TESTS = ("later", "not built", "comparison")


@dataclass(frozen=True)
class Row:
    """One row of the parity page. ``proof`` is a list of tests, or one of `NO_TESTS` and a reason."""

    area: str
    name: str
    what: str
    proof: str

    @property
    def tests(self) -> list[str]:
        return [test.strip(" `") for test in self.proof.split(",")] if self.works else []

    @property
    def reason(self) -> str:
        """Why there are no tests; empty if there are."""
        word, colon, reason = self.proof.partition(": ")
        return reason if colon and word in NO_TESTS else ""

    @property
    def works(self) -> bool:
        return "::" in self.proof and not self.reason


def rows() -> Iterator[Row]:
    area = ""
    for line in PARITY.read_text().splitlines():
        if heading := re.match(r"## \w\. (.+)", line):
            area = heading[1]
        elif found := re.match(r"\| ([A-Z]\d+) \| (.+?) \| (.+?) \|$", line):
            yield Row(area, found[1], found[2], found[3])


def table() -> str:
    areas: dict[str, list[Row]] = {}
    for row in rows():
        areas.setdefault(row.area, []).append(row)
    lines = ["| Area | Works, with a test | Comes later | Not built |", "| --- | --- | --- | --- |"]
    for area, members in areas.items():
        done = sum(row.works for row in members)
        later, never = (sum(row.proof.startswith(f"{word}: ") for row in members) for word in ("later", "not built"))
        lines.append(f"| {area} | {done or ''} | {later or ''} | {never or ''} |")
    return "\n".join(lines)


def updated(readme: str) -> str:
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{README.name} lacks the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def main() -> int:
    readme = README.read_text()
    if updated(readme) == readme:
        return 0
    if "--check" in sys.argv:
        print("README.md: the status table is outdated: run python3 dev.py docs")
        return 1
    README.write_text(updated(readme))
    return 0


if __name__ == "__main__":
    sys.exit(main())
