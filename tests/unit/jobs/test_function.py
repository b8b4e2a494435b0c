"""A job made of a function."""

import asyncio
import copy

import pytest

from offsider import job
from offsider.core.errors import InvalidJob
from offsider.jobs.function import JobFunction
from tests.unit.jobs.both import make_function


def test_a_job_function_is_still_a_function():
    add = make_function()
    assert add(1, c=5) == 8
    assert add.__doc__ == "Add three numbers."
    assert add.__name__ == "add"
    assert repr(add) == "<job add>"


def test_a_call_of_a_coroutine_function_returns_its_coroutine():
    @job(name="double")
    async def double(number):
        return 2 * number

    assert asyncio.run(double(2)) == 4


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
