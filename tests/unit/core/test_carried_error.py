"""Errors that one process passes to another."""

from __future__ import annotations

import pickle
import traceback

import pytest

from offsider import Reschedule
from offsider.core.carried_error import carried, raised_again
from offsider.core.error_text import class_of, frame_of, traceback_of
from offsider.core.errors import OffsiderError


class Peculiar(Exception):
    def __init__(self, code: int, *, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code = code


class Unfit(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.held = lambda: None


class Untrue(Exception):
    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, ("no error",)


class Gone(Exception):
    pass


def passed(error: BaseException) -> BaseException:
    """Raise an error, and return it as another process gets it."""
    try:
        raise error  # noqa: TRY301
    except BaseException as raised:
        return raised_again(pickle.loads(pickle.dumps(carried(raised, "nothing"))))


def test_an_error_keeps_its_class_message_and_attributes_whatever_its_class_accepts():
    error = passed(Peculiar(7, why="on purpose"))
    assert type(error) is Peculiar
    assert (str(error), error.code) == ("7: on purpose", 7)
    again = passed(Reschedule(30, reason="busy"))
    assert isinstance(again, Reschedule)
    assert (again.seconds, again.reason) == (30, "busy")
    assert passed(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")).reason == "bad"
    assert passed(OSError(2, "missing")).errno == 2


@pytest.mark.parametrize("kind", [Unfit, Untrue])
def test_an_error_that_pickle_cannot_store_keeps_its_name_and_message(kind):
    error = passed(kind("how odd"))
    assert isinstance(error, OffsiderError)
    assert (class_of(error), str(error)) == (f"{__name__}.{kind.__qualname__}", "how odd")


def test_an_error_whose_class_is_unknown_keeps_its_name(monkeypatch):
    chain = carried(Gone("how odd"), "nothing")
    monkeypatch.delitem(globals(), "Gone")
    assert class_of(raised_again(chain)) == f"{__name__}.Gone"


def test_a_traceback_keeps_its_lines_and_its_causes():
    def inner() -> None:
        raise Peculiar(1, why="inner")

    try:
        try:
            inner()
        except Peculiar as error:
            raise ValueError("outer") from error
    except ValueError as error:
        chain, lines = carried(error, "nothing"), traceback.extract_tb(error.__traceback__)
    again = raised_again(chain)
    assert [(one.filename, one.lineno, one.name) for one in traceback.extract_tb(again.__traceback__)] == [
        (one.filename, one.lineno, one.name) for one in lines
    ]
    assert isinstance(again.__cause__, Peculiar)
    assert 'raise Peculiar(1, why="inner")' in traceback_of(again)
    assert frame_of(again, __name__).function == "test_a_traceback_keeps_its_lines_and_its_causes"
    assert chain[0].frames
    assert not carried(error_in_this_module(), __name__)[0].frames


def error_in_this_module() -> ValueError:
    try:
        raise ValueError  # noqa: TRY301
    except ValueError as error:
        return error
