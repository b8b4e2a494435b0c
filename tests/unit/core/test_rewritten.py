"""The stored form of requeued and rescheduled jobs."""

import pytest

from offsider.core.payload import decode, interrupted, rescheduled

RAW = b'{"class":"HardJob","args":["\xc3\xbc"],"jid":"1","x":2.0}'


def test_an_interruption_changes_only_its_counter():
    once = interrupted(RAW)
    assert decode(once) == decode(RAW) | {"interrupted_count": 1}
    assert decode(interrupted(once))["interrupted_count"] == 2


def test_a_reschedule_changes_only_its_counter():
    once = rescheduled(interrupted(RAW))
    assert decode(once) == decode(RAW) | {"interrupted_count": 1, "rescheduled_count": 1}
    assert decode(rescheduled(once))["rescheduled_count"] == 2


@pytest.mark.parametrize("raw", [b"no json", b"[]", b'{"class":"X","args":[],"interrupted_count":"many"}'])
def test_invalid_jobs_and_foreign_counters_stay_unchanged(raw):
    assert interrupted(raw) == raw
