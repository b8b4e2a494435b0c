"""Languages of the pages."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as some

from offsider.web.translation import ENGLISH, Locale, locales, preferred, read_catalog

POLISH = read_catalog(r"""
msgid ""
msgstr ""
"Language: pl\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);\n"

# A section
#: a reference
msgid "jobs.count"
msgid_plural "jobs.count"
msgstr[0] "{count} zadanie"
msgstr[1] "{count} zadania"
msgstr[2] "{count} zadań"

msgid "jobs.of"
msgstr ""
"Zadania "
"\"{name}\""

msgid "jobs.none"
msgstr ""
""")


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
def test_the_chosen_language_wins_then_the_browsers_best(chosen, header, expected, monkeypatch):
    known = {code: Locale(code) for code in ("de", "en", "fr")}
    monkeypatch.setattr("offsider.web.translation.locales", lambda: known)
    assert preferred(chosen, header).code == expected


@given(some.text(max_size=300))
def test_every_accept_language_header_selects_a_language(header):
    assert preferred("", header).code in locales()


@pytest.mark.parametrize(
    "count,text", [(1, "1 zadanie"), (3, "3 zadania"), (5, "5 zadań"), (22, "22 zadania"), (0, "0 zadań")]
)
def test_the_count_selects_the_plural_form_of_the_language(count, text):
    assert Locale("pl", POLISH).translate("jobs.count", count=count) == text


def test_placeholders_are_filled_once_and_unknown_ones_stay():
    polish = Locale("pl", POLISH)
    assert polish.translate("jobs.of", name="{count}") == 'Zadania "{count}"'
    assert polish.translate("jobs.of", other=1) == 'Zadania "{name}"'
    assert polish.translate("jobs.of") == 'Zadania "{name}"'


def test_a_text_that_is_not_an_id_is_returned_unchanged():
    for text in ("", "connection refused", "{name}"):
        assert Locale("pl", POLISH).translate(text) == text


def test_a_message_without_translation_is_english():
    catalog = read_catalog('msgid ""\nmsgstr "Plural-Forms: nplurals=1; plural=0;\\n"\n')
    catalog.add_fallback(locales()[ENGLISH].catalog)
    locale = Locale("tlh", catalog)
    assert locale.translate("verb.delete") == "Delete"
    assert locale.translate("jobs.count", count=12345) == locales()[ENGLISH].translate("jobs.count", count=12345)
    assert (locale.name, locale.direction) == ("English", "ltr")


def test_numbers_have_the_format_of_the_language():
    numbers = {code: locales()[code].number for code in ("en", "de", "fr", "ja")}
    assert numbers["en"](1234567.5, 1) == numbers["ja"](1234567.5, 1) == "1,234,567.5"
    assert numbers["de"](1234567.5, 1) == "1.234.567,5"
    assert numbers["fr"](1234.5, 1) == "1\N{NARROW NO-BREAK SPACE}234,5"
    assert "12.345" in locales()["de"].translate("jobs.count", count=12345)


def test_every_language_has_its_own_name_and_direction():
    names = {code: locale.name for code, locale in locales().items()}
    assert len(set(names.values())) == len(names) >= 12
    assert list(names.values()) == sorted(names.values(), key=str.casefold)
    assert {code for code, locale in locales().items() if locale.direction == "rtl"} == {"ar", "he"}


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
    assert locales()["en"].compact(value) == shown


def test_short_forms_are_translated():
    assert locales()["de"].compact(8_217_234) == "8,2 Mio."
