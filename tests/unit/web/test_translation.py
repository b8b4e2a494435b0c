"""Languages of the pages."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as some

from offsider.web.translation import NAMES, Locale, locales, preferred


@pytest.mark.parametrize(
    "chosen,header,expected",
    [
        ("", "", "en"),
        ("", "de-AT,de;q=0.9,en;q=0.5", "de"),
        ("", "en;q=0.2, fr;q=0.8", "fr"),
        ("fr", "de", "fr"),
        ("xx", "de", "de"),
        ("", "tlh, *;q=0.1", "en"),
        ("", "de;q=oops, fr", "fr"),
        ("", "de;q=0, en", "en"),
    ],
)
def test_the_choice_counts_most_then_what_the_browser_asks_for(chosen, header, expected, monkeypatch):
    known = {code: Locale(code) for code in ("de", "en", "fr")}
    monkeypatch.setattr("offsider.web.translation.locales", lambda: known)
    assert preferred(chosen, header).code == expected


@given(some.text(max_size=300))
def test_whatever_a_browser_sends_there_is_a_language(header):
    assert preferred("", header).code in locales()


def test_a_text_without_translation_stays_english_and_numbers_are_grouped():
    german = Locale("de", {"Jobs: {count}": "Aufträge: {count}", "Empty": ""})
    assert german.translate("Jobs: {count}", count=12345) == "Aufträge: 12.345"
    assert german.translate("Jobs of {name}", name="{count}") == "Jobs of {count}"
    assert german.translate("Empty") == "Empty"
    assert german.translate("{missing}", count=1) == "{missing}"


def test_numbers_are_written_as_the_language_does_it():
    assert Locale("en").number(1234567.5, 1) == "1,234,567.5"
    assert Locale("de").number(1234567.5, 1) == "1.234.567,5"
    assert Locale("fr").number(1234.5, 1) == "1\N{NARROW NO-BREAK SPACE}234,5"


def test_every_language_has_its_name_and_its_direction():
    assert {locale.name for locale in locales().values()} <= set(NAMES.values())
    assert Locale("ar").direction == "rtl"
    assert Locale("de").direction == "ltr"
    assert Locale("tlh").name == "tlh"


@pytest.mark.parametrize(
    "value,shown",
    [
        (999_999, "999,999"),
        (1_000_000, "1.0M"),
        (8_217_234, "8.2M"),
        (8_299_999, "8.2M"),
        (123_456_789, "123M"),
        (999_999_999, "999M"),
        (1_000_000_000, "1.0B"),
        (10**15, "1,000,000B"),
    ],
)
def test_a_large_number_has_a_short_form(value, shown):
    assert Locale("en").compact(value) == shown


def test_the_short_form_is_the_languages_own():
    assert locales()["de"].compact(8_217_234) == "8,2 Mio."
