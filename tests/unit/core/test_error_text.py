"""Safe, bounded texts of any error."""

from __future__ import annotations

import importlib
import sys

import pytest

from offsider.core.error_text import (
    Frame,
    class_of,
    describe,
    frame_of,
    last_characters,
    message_of,
    shown,
    traceback_of,
    traceback_parts,
)

UNSPEAKABLE = [
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    MemoryError,
    RecursionError,
    ValueError,
]


def raising(kind):
    class OddError(Exception):
        def __str__(self):
            raise kind("from str()")

        __repr__ = __str__

    return OddError()


def raised(error):
    try:
        raise error  # noqa: TRY301
    except BaseException as caught:
        return caught


class OddText(str):
    __slots__ = ()

    def __getitem__(self, _):
        raise SystemExit

    def __len__(self):
        raise SystemExit


class OddTextError(Exception):
    def __str__(self):
        return OddText("said")


class NoTextError(Exception):
    def __str__(self):
        return 5  # noqa: PLE0307


@pytest.mark.parametrize("kind", UNSPEAKABLE)
def test_str_of_an_error_may_raise_anything(kind):
    error = raised(raising(kind))
    assert message_of(error) == f"(the message of this error cannot be shown: its __str__ raised {kind.__name__})"
    assert describe(error).startswith("OddError: (the message")
    assert shown(error) == "<OddError>"
    assert "in raised" in traceback_of(error)
    error.__notes__ = [raising(kind)]
    assert "in raised" in traceback_of(error)


def test_str_may_return_a_text_with_methods_of_its_own_or_no_text():
    assert message_of(OddTextError()) == "said"
    assert "its __str__ raised TypeError" in message_of(NoTextError())


def test_the_class_of_an_error_may_have_any_name():
    assert len(class_of(type("E" * 1_000_000, (Exception,), {})())) == 500
    assert class_of(type("Odd", (Exception,), {"__module__": "\ud800"})()) == "?.Odd"

    class Meta(type):
        def __getattribute__(cls, name):
            raise SystemExit

    assert class_of(Meta("Odd", (Exception,), {})()) == "error"


@pytest.mark.parametrize("error", [ValueError("x" * 20_000_000), ValueError(), KeyError("\ud800")])
def test_all_texts_are_bounded(error):
    error.add_note("note" * 5_000_000)
    assert len(message_of(error)) <= 10_000
    assert len(describe(error)) <= 10_600
    assert len(traceback_of(raised(error))) <= 10_000
    assert sum(map(len, traceback_parts(error))) <= 30_000


def test_a_traceback_without_its_beginning_says_so():
    text = traceback_of(raised(ValueError("x\n" * 20_000)))
    assert text[0] == "…"
    assert last_characters("abc", 2) == "…c"


def test_the_members_and_causes_of_an_error_are_bounded():
    members = ExceptionGroup("many", [ValueError(number) for number in range(100_000)])
    assert traceback_parts(raised(members))[-1] == "ExceptionGroup: many (100000 sub-exceptions)\n"
    error = ValueError("last")
    for _ in range(10_000):
        error, before = ValueError("last"), error
        error.__context__ = before
    assert len(traceback_parts(raised(error))) < 10


def test_the_frames_of_an_error_are_bounded():
    def deeper(levels):
        if levels:
            other(levels - 1)
        raise ValueError

    def other(levels):
        deeper(levels)

    with pytest.raises(ValueError) as caught:
        deeper(300)
    assert len(traceback_parts(caught.value)) < 250


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function of the package ``shop`` in site-packages, which calls one of the package ``library`` there."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "library.py").write_text("import json\ndef call():\n    return json.loads('{')\n")
    (packages / "shop.py").write_text("import library\n\ndef run():\n    return library.call()\n")
    monkeypatch.syspath_prepend(packages)
    yield importlib.import_module("shop").run
    del sys.modules["shop"], sys.modules["library"]


def test_the_top_application_frame_is_the_innermost_one_outside_of_python_and_installed_packages(installed):
    def refuse():
        installed()

    with pytest.raises(ValueError, match="Expecting") as caught:
        refuse()
    line = refuse.__code__.co_firstlineno + 1
    assert frame_of(caught.value) == Frame("tests/unit/core/test_error_text.py", refuse.__qualname__[-100:], line)
    of_installed_application = frame_of(caught.value, "shop.jobs")
    assert of_installed_application == Frame("shop.py", "run", 4)
    assert of_installed_application.name == "shop.py:run"


def test_an_error_without_an_application_frame_has_an_empty_one():
    with pytest.raises(ValueError, match="Expecting") as caught:
        exec("import json; json.loads('{')", {})
    caught.value.__traceback__ = caught.value.__traceback__.tb_next
    assert frame_of(caught.value) == frame_of(ValueError()) == Frame()
    assert Frame().name == ""
