"""Subjects of controls, and what a control does."""

from __future__ import annotations

import pytest

from offsider.core.controls import Control, InvalidControl, check, class_of, is_class, selector


@pytest.mark.parametrize(
    "subject, its_class, is_a_class",
    [
        ("app.Export", "app.Export", True),
        ("app.Export[acme]", "app.Export", True),
        ("app.Export[a=b]", "app.Export", True),
        ("a.B[7[x]]", "a.B", True),
        ("queue=mails", "queue=mails", False),
        ("urgency=low&tags=export", "urgency=low&tags=export", False),
        ("*", "*", False),
        ("<img src=x>", "<img src=x>", True),
    ],
)
def test_a_subject_is_a_class_a_key_a_queue_or_a_selector(subject, its_class, is_a_class):
    assert (class_of(subject), is_class(subject)) == (its_class, is_a_class)
    assert (selector(subject) is None) == (is_a_class or subject == "queue=mails")


def test_a_selector_that_cannot_be_parsed_is_refused():
    with pytest.raises(InvalidControl, match=r"the subject 'urgent=1', character 1: unknown predicate"):
        check(Control("urgent=1", "hold"))
    assert check(Control("app.Export[a=b]", "hold")).subject == "app.Export[a=b]"


def test_a_control_describes_what_it_does():
    controls = [
        Control("A", "run"),
        Control("A", "limit", limit=3),
        Control("A", "hold"),
        Control("A", "defer", delay_seconds=60.0),
        Control("A", "drop"),
        Control("A", "drop", keep=False),
    ]
    assert [control.described for control in controls] == [
        *("run without a limit", "limited to 3", "held", "deferred by 60 s", "dropped", "deleted"),
    ]
