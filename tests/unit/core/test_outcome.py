"""Outcomes have the names used in events."""

from typing import get_args

from offsider.core.outcome import NotStarted, Outcome


def test_every_outcome_has_a_name_of_its_own():
    kinds = [kind for kind in get_args(Outcome) if kind is not NotStarted]  # each of those is created with a name
    names = sorted(kind.name for kind in kinds)
    assert names == ["discarded", "failed", "interrupted", "malformed", "rescheduled", "skipped", "succeeded"]
