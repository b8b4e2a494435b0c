"""A job made of a function."""

import copy

import pytest

from offsider import Job, job
from offsider.core.errors import InvalidJob
from offsider.jobs.function import JobFunction
from tests.unit.jobs.both import make_function


def test_a_job_function_is_still_a_function():
    add = make_function()
    assert add(1, c=5) == 8
    assert add.__doc__ == "Add three numbers."
    assert add.__name__ == "add"
    assert repr(add) == "<job add>"


@pytest.mark.parametrize(
    "name, ours",
    [("delay", "enqueue"), ("apply_async", "enqueue"), ("send", "enqueue"), ("s", "call"), ("apply", "run_inline")],
)
def test_a_method_of_another_library_names_our_method(name, ours):
    with pytest.raises(AttributeError, match=f"'JobFunction' object has no attribute '{name}': use {ours}"):
        getattr(make_function(), name)
    with pytest.raises(AttributeError, match=f"'Enqueuer' object has no attribute '{name}': use {ours}"):
        getattr(make_function().using(queue="low"), name)


def test_any_other_missing_attribute_is_an_ordinary_one():
    add = make_function()
    with pytest.raises(AttributeError, match=r"'JobFunction' object has no attribute 'enqueu'$") as caught:
        add.enqueu  # noqa: B018  # read for its error
    assert (caught.value.name, caught.value.obj) == ("enqueu", add)
    assert not hasattr(add, "__wrapped_by__")
    assert isinstance(copy.copy(add), JobFunction)


def test_options_without_names_are_refused():
    with pytest.raises(InvalidJob, match=r"@job takes options by name, got 'mails': write @job\(queue='mails'\)"):
        job("mails")


def test_a_class_is_refused_since_no_worker_would_call_perform():
    with pytest.raises(InvalidJob, match=r"Resize is a class: .* derive a class with the method perform"):

        @job
        class Resize:
            def perform(self): ...


def test_a_method_is_refused_since_no_worker_has_its_object():
    with pytest.raises(InvalidJob, match=r"Shop\.confirm is a method, and a worker has no object .*test_function\.py:"):

        class Shop:
            @job
            def confirm(self, order_id): ...


def test_a_static_method_and_a_function_with_a_parameter_self_are_jobs():
    class Shop:
        @staticmethod
        @job
        def confirm(order_id): ...

    @job
    def outside(self): ...

    assert Shop.confirm.declared.name.endswith("Shop.confirm")
    assert outside.declared.parameter_name(0) == "self"


def test_a_class_with_perform_is_a_job():
    class Resize(Job):
        def perform(self, path): ...

    assert Resize.declared.parameter_name(0) == "path"
