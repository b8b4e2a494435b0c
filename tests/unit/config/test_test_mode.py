"""Pushes go to the innermost sink."""

from __future__ import annotations

from types import SimpleNamespace

from offsider.config import test_mode


def test_the_innermost_sink_takes_pushes_and_none_means_redis():
    first, second = [].append, [].append
    assert test_mode.current() is None
    with test_mode.diverted(first):
        with test_mode.diverted(second):
            assert test_mode.current() == second
            with test_mode.diverted(None):
                assert test_mode.current() is None
        assert test_mode.current() == first
    assert test_mode.current() is None


def test_blocks_may_be_left_in_any_order():
    first, second = (lambda pushes: None), (lambda pushes: None)
    one, two = test_mode.diverted(first), test_mode.diverted(second)
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert test_mode.current() is second
    two.__exit__(None, None, None)
    assert test_mode.current() is None


def test_a_bound_function_keeps_the_sink_of_its_binding():
    def pushes(name: str) -> object:
        return name, test_mode.current()

    sink = [].append
    assert test_mode.bound(pushes) is pushes
    with test_mode.diverted(sink):
        bound = test_mode.bound(pushes)
    assert (bound("a"), bound("b")) == (("a", sink), ("b", sink))
    assert test_mode.current() is None


def test_a_test_framework_or_the_environment_shows_a_test(monkeypatch):
    assert test_mode.is_test()
    modules: dict[str, object] = {}
    monkeypatch.setattr(test_mode, "sys", SimpleNamespace(modules=modules))
    assert not test_mode.is_test()
    assert test_mode.wants_advice()
    with test_mode.diverted(None):
        assert not test_mode.wants_advice()
    monkeypatch.setenv("OFFSIDER_ENV", "test")
    assert test_mode.is_test()
    monkeypatch.delenv("OFFSIDER_ENV")
    modules["unittest"] = None
    assert test_mode.is_test()
