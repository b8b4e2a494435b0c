"""Links between pages lead somewhere, headings included, and pages about the inside name modules that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.snippets import FENCE, ROOT, pages

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FOLDERS = "cli|client|config|core|embedded|inspector|job|logs|runtime|storage|testing|worker"
MODULE = re.compile(rf"`((?:{FOLDERS})/[\w/]+\.(?:py|lua))`")


def text_of(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text_of(page))}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in LINK.findall(text_of(page)):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "internals").glob("*.md")), ids=lambda page: page.name)
def test_named_modules_exist(page):
    for name in MODULE.findall(text_of(page)):
        assert (ROOT / "src" / "offsider" / name).is_file(), name
