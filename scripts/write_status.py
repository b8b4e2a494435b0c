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


@dataclass(frozen=True)
class Row:
    """One row of the parity page. ``proof`` is a list of tests, ``later: reason``, or ``todo``."""

    area: str
    name: str
    what: str
    proof: str

    @property
    def tests(self) -> list[str]:
        return [] if self.is_later else [test.strip(" `") for test in self.proof.split(",")]

    @property
    def is_later(self) -> bool:
        return self.proof.startswith("later: ")

    @property
    def works(self) -> bool:
        return "::" in self.proof and not self.is_later


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
    lines = ["| Area | Works, with a test | Comes later |", "| --- | --- | --- |"]
    for area, members in areas.items():
        done = sum(row.works for row in members)
        lines.append(f"| {area} | {done or ''} | {len(members) - done or ''} |")
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
