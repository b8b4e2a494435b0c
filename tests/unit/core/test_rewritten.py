"""The stored form of requeued and rescheduled jobs."""

import pytest

from offsider.core.payload import decode, interrupted, rescheduled

RAW = b'{"class":"HardJob","args":["\xc3\xbc"],"jid":"1","x":2.0}'


@pytest.mark.parametrize("change, counter", [(interrupted, "interrupted_count"), (rescheduled, "rescheduled_count")])
def test_a_change_raises_only_its_counter(change, counter):
    once = change(RAW)
    assert decode(once) == decode(RAW) | {counter: 1}
    assert decode(change(once))[counter] == 2


@pytest.mark.parametrize("raw", [b"no json", b"[]", b'{"class":"X","args":[],"interrupted_count":"many"}'])
def test_invalid_jobs_and_foreign_counters_stay_unchanged(raw):
    assert interrupted(raw) == raw
