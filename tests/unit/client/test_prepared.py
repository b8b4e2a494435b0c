"""The values a push is made of."""

import pytest

from offsider import Job, job
from offsider.client import Prepared
from offsider.client.prepared import declared_of
from offsider.jobs import registry


def test_a_prepared_push_exposes_its_jid(client, stored):
    client.push({"class": "X", "args": [], "jid": "abc"})
    assert isinstance(stored[0], Prepared)
    assert stored[0].jid == "abc"


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
