"""Calls kept for a bulk push."""

import pytest

from offsider import job
from offsider.core.errors import InvalidArguments


def test_bulk_pushes_accept_calls_or_tuples(declare, stored):
    add = declare()
    jids = add.enqueue_many([add.call(1, c=5), (2, 3), [4]])
    assert [(job.payload["args"], job.payload.get("kwargs")) for job in stored] == [
        ([1], {"c": 5}),
        ([2, 3], None),
        ([4], None),
    ]
    assert jids == [job.jid for job in stored]


def test_a_call_of_another_job_is_refused(declare, stored):
    @job(name="other")
    def other(a: int) -> None: ...

    with pytest.raises(InvalidArguments, match="add: got a call of another job, other"):
        declare().enqueue_many([other.call(1)])
    assert stored == []
