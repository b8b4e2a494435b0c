"""The messages of the web UI: every id exists and is used."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from offsider.web.pages import routes

SOURCE = Path(__file__).parents[2] / "src" / "offsider"
WEB, SCREENS = SOURCE / "web", SOURCE / "screens"
CATALOG = SCREENS / "locales" / "en.po"
TEMPLATES = sorted((WEB / "templates").rglob("*.html"))
SOURCES = [
    file
    for folder in (WEB, SCREENS)
    for kind in ("*.py", "*.html", "*.js")
    for file in folder.rglob(kind)
    if not file.stem.endswith("_adapter")
]
#: Quoted texts of this form in the sources are ids of messages, unless they are one of `OTHERS`.
ID = re.compile(r"""["']([a-z]+\.[a-z0-9_]+)["']""")
#: Attributes that a browser shows or reads out.
SHOWN = frozenset({"aria-label", "title", "placeholder", "alt", "label", "data-confirm", "aria-description"})
#: Names and units that need no message.
NAMES = frozenset({"offsider", "JSON", "UTC", "JID", "TID", "RSS", "ms", "s", "Redis", "Valkey"})


def entries():
    """Id to (whether it has plural forms, its texts)."""
    found = {}
    for entry in CATALOG.read_text("utf-8").split("\n\n")[1:]:
        message = re.search(r'^msgid "(.+)"$', entry, re.MULTILINE)[1]
        assert message not in found, f"{message} is there twice"
        found[message] = ("msgid_plural" in entry, re.findall(r'^msgstr(?:\[\d\])? "(.*)"$', entry, re.MULTILINE))
    return found


MESSAGES = entries()
OTHERS = {route.action for route in routes()} | {"metrics.scrape", "offsider.web", "layout.html", "icon.svg", "en.po"}


def used():
    return {found for file in SOURCES for found in ID.findall(file.read_text("utf-8"))} - OTHERS


def test_every_id_in_code_and_templates_is_a_message():
    assert used() - set(MESSAGES) == set()


def test_every_message_is_used():
    assert set(MESSAGES) & OTHERS == set(), "an id must differ from every action, or it counts as used"
    assert set(MESSAGES) - used() == set()


def test_a_message_has_plural_forms_exactly_when_it_has_a_count():
    assert [name for name, (plural, texts) in MESSAGES.items() if plural != ("{count}" in texts[-1])] == []


def test_a_text_has_words_and_no_markup():
    texts = [text for _, forms in MESSAGES.values() for text in forms]
    assert all(text.strip() and "<" not in text for text in texts)
    assert {len(forms) for plural, forms in MESSAGES.values() if plural} == {2}


class _Shown(HTMLParser):
    """Collects the text of a template that a reader sees or hears."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_data(self, data):
        self.found.append(data)

    def handle_starttag(self, tag, attrs):
        shown = SHOWN | {"value"} if tag == "input" and ("type", "submit") in attrs else SHOWN
        self.found += [value for name, value in attrs if value and name in shown]


def literal_words(source):
    """The visible words of a template outside of ``{{ … }}``."""
    plain = re.sub(r"\{#.*?#\}|\{%.*?%\}", "", source, flags=re.DOTALL)
    # A placeholder may be the name of a tag; quotes in it would end an attribute.
    plain = re.sub(r"(</?)\{\{.*?\}\}", r"\1div", plain, flags=re.DOTALL)
    plain = re.sub(r"\{\{.*?\}\}", " ", plain, flags=re.DOTALL)
    parser = _Shown()
    parser.feed(plain)
    words = [word for text in parser.found for word in re.findall(r"[^\W\d_][\w'-]*", text)]
    return [word for word in words if word not in NAMES]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_no_literal_words(template):
    assert literal_words(template.read_text("utf-8")) == []
