"""The documentation's site: complete, built without a warning, and readable without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHAPTERS = ["Why", "Quickstart", "Tutorial", "Guides", "Concepts", "Operations", "Reference", "Internals"]
# These elements load their targets; <a> does not.
LOADING = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


def build(folder: Path) -> None:
    # The word itself, in the interpreter's own environment: two tests must not install into .venv at the same time.
    call = f"import dev; dev.prepare = print; raise SystemExit(dev.docs(['--build', '--site-dir', {str(folder)!r}]))"
    ended = subprocess.run([sys.executable, "-c", call], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def nav() -> str:
    (text,) = re.findall(r"^nav:\n(.*?)\n\n", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE | re.DOTALL)
    return text


def test_every_page_of_docs_is_in_the_nav_exactly_once():
    listed = Counter(re.findall(r"[\w/-]+\.md$", nav(), re.MULTILINE))
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(pages - set(listed)) == [], "add these pages of docs/ to `nav` in mkdocs.yml"
    assert [page for page, times in listed.items() if times > 1] == []


def test_the_chapters_lead_from_the_reason_to_the_inside():
    assert re.findall(r"^  - ([^:]+):", nav(), re.MULTILINE) == CHAPTERS


class Loaded(HTMLParser):
    """Collects the resources that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attrs):
        names = dict(attrs)
        if names.get("rel") != "canonical" and (address := names.get(LOADING.get(tag, ""))):
            self.addresses.append(address)


@pytest.mark.timeout(600)
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_other_servers(tmp_path):
    build(tmp_path)
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text())
        assert loaded.addresses
        assert [address for address in loaded.addresses if re.match("(?:https?:)?//", address)] == [], page
    styles = "".join(path.read_text() for path in tmp_path.rglob("*.css"))
    assert re.findall(r"url\(['\"]?(?:https?:)?//[^)]*\)|@import", styles) == []

    front = (tmp_path / "index.html").read_text()
    assert 'data-md-component="search"' in front
    assert "liveness_seconds" in (tmp_path / "search" / "search_index.json").read_text()
    assert 'data-md-color-scheme="slate"' in front  # dark mode

    # Files of the project outside of docs/ are copied.
    assert (tmp_path / "files" / "deploy" / "offsider.service").read_text().startswith("# ")
    assert 'href="files/deploy/offsider.service"' in (tmp_path / "deployment.html").read_text()
    assert 'href="contributing.html"' in front

    # The reference: one place for each name, made from its docstring.
    assert 'id="offsider.Client.push"' in (tmp_path / "reference" / "clients.html").read_text()
    assert "1 in the first run, 2 in the first retry" in (tmp_path / "reference" / "jobs.html").read_text()
