"""Messages for people, programs and the log."""

from __future__ import annotations

from offsider.web.results import Message, with_gone
from offsider.web.translation import english

ENGLISH = english().translate


def test_str_is_english():
    assert str(Message("done.deleted", count=3)) == "Deleted 3 jobs."
    assert str(Message("no id: {name}")) == "no id: {name}"


def test_text_is_looked_up():
    assert Message("done.deleted", count=1234).text(ENGLISH) == "Deleted 1,234 jobs."


def test_missing_jobs_are_counted_separately():
    assert str(with_gone("done.deleted", 3, 0)) == "Deleted 3 jobs."
    assert with_gone("done.deleted", 0, 2).text(ENGLISH) == "Deleted 0 jobs. 2 jobs were already gone."


def test_placeholders_in_values_are_not_replaced():
    assert str(Message("queues.paused", name="{name}{count}")) == "Paused: {name}{count}."
