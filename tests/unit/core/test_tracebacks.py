"""Errors that link to others, and the variables that their frames keep."""

from __future__ import annotations

import gc
import traceback
import weakref

import pytest

from offsider.core.error_text import clear_frames, linked, origin_of, traceback_of


class Held:
    """An object with weak references."""


@pytest.fixture(autouse=True)
def _no_garbage_collection():
    gc.disable()
    yield
    gc.enable()


def fail(held, kind=ValueError):
    mine = held
    raise kind(mine is held)


def caught(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return error  # this frame refers to the error: a cycle


def test_an_error_links_to_its_causes_contexts_and_members_once_each():
    cause, context, member = KeyError(), LookupError(), OSError()
    group = ExceptionGroup("several", [member, ExceptionGroup("inner", [cause])])
    group.__cause__, group.__context__, context.__context__ = cause, context, group
    assert sorted(type(one).__name__ for one in linked(group)) == [
        "ExceptionGroup",
        "ExceptionGroup",
        "KeyError",
        "LookupError",
        "OSError",
    ]


def test_properties_of_an_error_are_not_called():
    def ends(_):
        raise SystemExit(5)

    names = ("__cause__", "__context__", "__traceback__", "exceptions", "__class__")
    odd = type("OddError", (ExceptionGroup,), dict.fromkeys(names, property(ends)))
    member = KeyError()
    error = caught(fail, None, lambda _: odd("several", [member]))
    context, cause = OSError(), LookupError()
    vars(BaseException)["__context__"].__set__(error, context)
    assert origin_of(error) is context
    vars(BaseException)["__cause__"].__set__(error, cause)
    assert origin_of(error) is cause
    assert {type(one) for one in linked(error)} == {odd, KeyError, OSError, LookupError}
    clear_frames(error)
    assert "in fail" in traceback_of(error)


def test_cleared_frames_keep_no_variables_and_the_traceback_stays():
    held = Held()
    alive = weakref.ref(held)
    error = caught(fail, held)
    del held
    assert alive() is not None
    clear_frames(error)
    assert alive() is None
    assert "in fail" in "".join(traceback.format_exception(error))


def test_frames_of_linked_errors_are_cleared_too():
    held = Held()
    alive = weakref.ref(held)
    error = ExceptionGroup("several", [caught(fail, held)])
    del held
    clear_frames(error)
    assert alive() is None


def test_a_coroutine_that_is_suspended_is_left_alone():
    shared = ValueError()

    def suspends():
        try:
            raise shared
        except ValueError:
            yield "waits"
        yield "goes on"

    other = suspends()
    assert next(other) == "waits"
    clear_frames(shared)
    assert next(other) == "goes on"
