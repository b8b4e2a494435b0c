"""A job made of a function."""

from tests.unit.jobs.both import make_function


def test_a_job_function_is_still_a_function():
    add = make_function()
    assert add(1, c=5) == 8
    assert add.__doc__ == "Add three numbers."
    assert add.__name__ == "add"
    assert repr(add) == "<job add>"
