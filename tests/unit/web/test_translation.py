"""The texts of the pages."""

from __future__ import annotations

import pytest

from offsider.web.translation import Language, english, read_catalog

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
    "count,text", [(1, "1 zadanie"), (3, "3 zadania"), (5, "5 zadań"), (22, "22 zadania"), (0, "0 zadań")]
)
def test_the_count_selects_the_plural_form_of_the_language(count, text):
    assert Language("pl", POLISH).translate("jobs.count", count=count) == text


def test_placeholders_are_filled_once_and_unknown_ones_stay():
    polish = Language("pl", POLISH)
    assert polish.translate("jobs.of", name="{count}") == 'Zadania "{count}"'
    assert polish.translate("jobs.of", other=1) == 'Zadania "{name}"'
    assert polish.translate("jobs.of") == 'Zadania "{name}"'


def test_a_text_that_is_not_an_id_is_returned_unchanged():
    for text in ("", "connection refused", "{name}"):
        assert Language("pl", POLISH).translate(text) == text


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
    assert english().compact(value) == shown


def test_numbers_are_grouped():
    assert english().number(1234567.5, 1) == "1,234,567.5"
    assert "12,345" in english().translate("jobs.count", count=12345)
