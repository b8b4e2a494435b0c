"""The state of the GIL on a free-threaded build, which is simulated here unless the tests run on one."""

import sys
import warnings

import pytest

from offsider.core import gil

WARNING = "The global interpreter lock (GIL) has been enabled to load module 'slow._c', which has not declared that it"


@pytest.fixture
def on(monkeypatch):
    """Simulate a free-threaded build; the list holds whether the GIL is on."""
    state = [False]
    monkeypatch.setattr(gil, "FREE_THREADED", True)
    monkeypatch.setattr(gil, "_enabled_by", [])
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: state[0], raising=False)
    return state


def test_an_ordinary_build_has_nothing_to_tell(monkeypatch):
    monkeypatch.setattr(gil, "FREE_THREADED", False)
    monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    shown = warnings.showwarning
    gil.watch()
    assert (gil.is_on(), gil.state(), warnings.showwarning) == (True, "", shown)


def test_the_state_and_the_log_name_the_module_that_turned_the_gil_on(on, monkeypatch, caplog):
    shown = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: shown.append(str(message)))
    assert gil.state() == "GIL off"
    on[0] = True
    assert gil.state() == "GIL on"
    gil.watch()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(WARNING, RuntimeWarning, stacklevel=1)
        warnings.warn("another", RuntimeWarning, stacklevel=1)
    assert gil.state() == "GIL on, because of slow._c"
    assert shown == ["another"]
    assert caplog.messages == ["the import of slow._c turned the GIL on: all threads share one core now"]


def test_a_module_that_would_turn_the_gil_on_is_hidden(on, monkeypatch):
    monkeypatch.delitem(sys.modules, "xdrlib", raising=False)
    on[0] = True
    gil.keep_off("xdrlib")
    assert "xdrlib" not in sys.modules
    on[0] = False
    gil.keep_off("xdrlib")
    assert sys.modules.pop("xdrlib") is None


def test_nothing_is_hidden_if_the_gil_is_forced_off(on, monkeypatch):
    class Flags:
        gil = 0

    monkeypatch.setattr(sys, "flags", Flags())
    gil.keep_off("xdrlib")
    assert "xdrlib" not in sys.modules
