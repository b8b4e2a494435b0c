"""What is stored when a job goes back."""

import pytest

from offsider.core.payload import decode, interrupted, rescheduled

RAW = b'{"class":"HardJob","args":["\xc3\xbc"],"jid":"1","x":2.0}'


def test_each_interruption_counts_and_changes_nothing_else():
    once = interrupted(RAW)
    assert decode(once) == decode(RAW) | {"interrupted_count": 1}
    assert decode(interrupted(once))["interrupted_count"] == 2


def test_each_reschedule_counts_and_changes_nothing_else():
    once = rescheduled(interrupted(RAW))
    assert decode(once) == decode(RAW) | {"interrupted_count": 1, "rescheduled_count": 1}
    assert decode(rescheduled(once))["rescheduled_count"] == 2


@pytest.mark.parametrize("raw", [b"no json", b"[]", b'{"class":"X","args":[],"interrupted_count":"many"}'])
def test_bytes_that_are_no_job_or_bear_somebody_elses_count_stay_as_they_are(raw):
    assert interrupted(raw) == raw
