"""Every word of the web pages can be read in every language."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from offsider.web.translation import NAMES, RIGHT_TO_LEFT

ROOT = Path(__file__).parents[2]
LOCALES = ROOT / "src" / "offsider" / "web" / "locales"
TEMPLATES = sorted((ROOT / "src" / "offsider" / "web" / "templates").rglob("*.html"))
CODES = sorted(file.stem for file in LOCALES.glob("*.json"))


def _load():
    spec = importlib.util.spec_from_file_location("page_texts", ROOT / "scripts" / "page_texts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


page_texts = _load()
TEXTS = page_texts.texts()


def test_there_are_many_languages_and_some_that_are_read_from_the_right():
    assert len(CODES) >= 12
    assert len(RIGHT_TO_LEFT & set(CODES)) >= 2


@pytest.mark.parametrize("code", CODES)
def test_a_language_has_every_text_and_no_other(code):
    catalog = page_texts.catalogs()[code]
    assert sorted(TEXTS - set(catalog)) == []
    assert sorted(set(catalog) - TEXTS) == []


@pytest.mark.parametrize("code", CODES)
def test_a_translation_has_the_same_places_for_values_as_the_english_text(code):
    places = page_texts.PLACE.findall
    wrong = {
        text: found
        for text, found in page_texts.catalogs()[code].items()
        if sorted(places(text)) != sorted(places(found))
    }
    assert wrong == {}


@pytest.mark.parametrize("code", CODES)
def test_no_translation_is_empty_or_holds_markup(code):
    catalog = page_texts.catalogs()[code]
    assert [text for text, found in catalog.items() if not found.strip() or "<" in found] == []


@pytest.mark.parametrize("code", CODES)
def test_a_language_is_called_what_its_speakers_call_it(code):
    assert code in NAMES


@pytest.mark.parametrize("code", CODES)
def test_a_catalog_is_sorted_and_has_no_text_twice(code):
    """So that two people who add texts meet in different lines."""
    written = (LOCALES / f"{code}.json").read_text("utf-8")
    pairs = json.loads(written, object_pairs_hook=list)
    assert [key for key, _ in pairs] == sorted({key for key, _ in pairs})


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_no_visible_word_that_is_not_translated(template):
    assert page_texts.untranslated(template.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "source,words",
    [
        ("<p>Jobs: {{ t('Jobs') }}</p>", ["Jobs"]),
        ('<a title="All jobs" href="{{ url("/x") }}">{{ name }}</a>', ["All", "jobs"]),
        ('<input type="submit" value="Send">', ["Send"]),
        ('<input type="hidden" value="yes"><td class="number">{# a note #}{{ size }} ms</td>', []),
        ('<{{ "div" if again else "nav" }} class="pager">1</{{ "div" if again else "nav" }}>', []),
        ("{% if x %}·{% endif %} {{ t('Total') }}", []),
    ],
)
def test_words_outside_of_a_translation_are_found(source, words):
    assert page_texts.untranslated(source) == words


def test_texts_are_found_wherever_they_are_said():
    template = """{{ t("One") }} <a title="{{ t('Two {x}', x=1) }}">{{ t("Three" if "no" else "Four") }}</a>"""
    assert {"One", "Two {x}", "Three", "Four"} <= set(page_texts.in_template(template))
    code = """
TABS = (("/", "Five"),)
TITLES = {404: "Twelve"}
WORDS = ("Thirteen",)
WORD = "Sixteen"
def trouble(found):
    found.append("Seventeen")
    return found["no"]
Page("template", "Six", {})
Route("POST", "/x", "x.y", f, confirm="Seven?")
visit.t("Eight" if x == "no" else "Nine")
t("Ten")
other("Eleven")
"""
    tree = page_texts.ast.parse(code)
    assert set(page_texts.in_code(tree, {"TABS": 1, "TITLES": None, "WORDS": None, "WORD": None, "trouble": None})) == {
        *("Five", "Six", "Seven?", "Eight", "Nine", "Ten", "Twelve", "Thirteen", "Sixteen", "Seventeen")
    }
