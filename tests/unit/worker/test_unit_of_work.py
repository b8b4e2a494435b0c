"""What is stored when a job goes back."""

import pytest

from offsider.core.payload import decode
from offsider.worker.unit_of_work import UnitOfWork, interrupted

RAW = b'{"class":"HardJob","args":["\xc3\xbc"],"jid":"1","x":2.0}'


def test_each_interruption_counts_and_changes_nothing_else():
    once = interrupted(RAW)
    assert decode(once) == decode(RAW) | {"interrupted_count": 1}
    assert decode(interrupted(once))["interrupted_count"] == 2


@pytest.mark.parametrize("raw", [b"no json", b"[]", b'{"class":"X","args":[],"interrupted_count":"many"}'])
def test_bytes_that_are_no_job_stay_as_they_are(raw):
    assert interrupted(raw) == raw


def test_only_a_job_that_had_begun_was_interrupted():
    unit = UnitOfWork("low", RAW)
    assert unit.put_back == RAW
    unit.started = True
    assert decode(unit.put_back)["interrupted_count"] == 1
