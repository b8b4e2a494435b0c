"""The values a push is made of."""

import pytest

from offsider import Job, job
from offsider.client.alike import PreparedAlike, passed, stored_jids
from offsider.client.prepared import declared_of
from offsider.jobs import registry


def test_a_declared_job_is_found_from_functions_classes_and_itself():
    with registry.isolated():

        @job(name="f")
        def function() -> None: ...

        class Klass(Job, name="k"):
            def perform(self) -> None: ...

    assert declared_of(function) is function.declared
    assert declared_of(Klass) is Klass.declared
    assert declared_of(Klass.declared) is Klass.declared


@pytest.mark.parametrize("other", ["HardJob", None, 7, int, object()])
def test_a_name_or_another_value_is_not_a_declared_job(other):
    assert declared_of(other) is None


@pytest.fixture
def alike() -> PreparedAlike:
    return PreparedAlike(
        {"class": "X", "queue": "low"}, [b"1", b"2", b"3"], [[1], [2], [3]], ["a", "b", "c"], server="s"
    )


def test_jobs_of_a_bulk_push_are_a_sequence(alike):
    assert len(alike) == 3
    assert alike[-1].payload == {"class": "X", "queue": "low", "args": [3], "jid": "c"}
    assert (alike[0].raw, alike[0].jid, alike[0].queue, alike[0].server, alike[0].at) == (b"1", "a", "low", "s", None)
    assert [job.jid for job in alike[1:]] == ["b", "c"]
    assert [job.raw for job in alike] == [b"1", b"2", b"3"]


def test_the_ids_of_refused_and_canceled_jobs_are_empty(alike):
    assert passed(alike) is alike
    assert stored_jids(alike) == ["a", "b", "c"]
    assert stored_jids(alike, {"b"}) == ["a", "", "c"]
    some = [alike[0], None, alike[2]]
    assert passed(some) == [alike[0], alike[2]]
    assert stored_jids(some, {"c"}) == ["a", "", ""]
