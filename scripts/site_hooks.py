"""What MkDocs needs beside docs/: the pages in the project's folder, and the files that pages link to.

1. README, CONTRIBUTING and the like become pages of the site; their links lose the folder `docs/`.
2. A link from a page to any other file of the project leads to a copy of that file in `files/`.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
# File of the project's folder -> page of the site
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "examples/django/README.md": "examples/django.md",
    "examples/fastapi/README.md": "examples/fastapi.md",
    "examples/flask/README.md": "examples/flask.md",
}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
# An item of a list needs an empty line before the list; code hosts do without.
LIST = re.compile(r"^(?![*\-] |\d+\. |\s|\||#|>|<!--)(.+)\n(?=(?:[*-] |1\. ))", re.MULTILINE)
FENCE = re.compile(r"(^ *```.*?^ *```)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and files that are not in docs/."""
    for source, target in PAGES.items():
        files.append(File.generated(config, target, content=(ROOT / source).read_text()))
    texts = {file.src_uri: file.content_string for file in files.documentation_pages()}
    for name in sorted({name for page, text in texts.items() for name in linked_files(page, text)}):
        files.append(File.generated(config, f"files/{name}", abs_src_path=str(ROOT / name)))
    return files


def linked_files(page: str, text: str) -> set[str]:
    """Return the project's files outside of docs/ that a page links to."""
    wanted = (place(page, found[1]) for part in FENCE.split(text)[::2] for found in LINK.finditer(part))
    return {name for name in wanted if name not in PAGES and not name.startswith("docs/") and (ROOT / name).is_file()}


def place(page: str, link: str) -> str:
    """Return the path in the project that a page's link means."""
    sources = {target: source for source, target in PAGES.items()}
    source = sources.get(page, f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Rewrite links for their place in the site, and lists for Markdown without a code host's dialect."""
    own = page.file.src_uri

    def moved(found: re.Match[str]) -> str:
        name = place(own, found[1])
        target = PAGES.get(name) or (name.removeprefix("docs/") if name.startswith("docs/") else f"files/{name}")
        return posixpath.relpath(target, posixpath.dirname(own) or ".") + (found[2] or "")

    parts = FENCE.split(markdown)
    parts[::2] = (LIST.sub(r"\1\n\n", LINK.sub(moved, part)) for part in parts[::2])
    return "".join(parts)
