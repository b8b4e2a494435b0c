"""Outcomes have the names used in events."""

from typing import get_args

from offsider.core.outcome import Outcome


def test_every_outcome_has_a_name_of_its_own():
    names = {kind.name for kind in get_args(Outcome)}
    assert names == {
        *("succeeded", "failed", "rescheduled", "stranded", "deferred", "dropped", "discarded", "skipped"),
        *("interrupted", "moved", "malformed", "not alone", "expired"),
    }
