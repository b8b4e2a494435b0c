"""The texts of the pages."""

from __future__ import annotations

import pytest

from offsider.screens.translation import Language, read_catalog

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
