"""Sentences for people, programs and the log."""

from __future__ import annotations

from offsider.web.translation import Locale
from offsider.web.words import Words, counted

GERMAN = Locale("de", {"Deleted: {count}": "Gelöscht: {count}", "Gone meanwhile: {count}": "Verschwunden: {count}"})


def test_english_for_programs_has_plain_numbers():
    assert str(Words("Deleted: {count}", count=1234)) == "Deleted: 1234"
    assert str(Words("{unknown} of {count}", count=1)) == "{unknown} of 1"


def test_people_read_their_own_language():
    assert Words("Deleted: {count}", count=1234).said(GERMAN.translate) == "Gelöscht: 1.234"


def test_how_many_had_left_is_told_when_some_had():
    assert str(counted("Deleted: {count}", 3, 0)) == "Deleted: 3"
    assert counted("Deleted: {count}", 0, 2).said(GERMAN.translate) == "Gelöscht: 0; Verschwunden: 2"


def test_what_somebody_wrote_into_a_value_is_no_place():
    assert str(Words("Paused: {name}", name="{name}{count}")) == "Paused: {name}{count}"
