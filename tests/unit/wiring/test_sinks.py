"""Pushes go to the innermost sink."""

from __future__ import annotations

from offsider.wiring import sinks


def test_the_innermost_sink_takes_pushes_and_none_means_redis():
    first, second = [].append, [].append
    assert sinks.current() is None
    with sinks.diverted(first):
        with sinks.diverted(second):
            assert sinks.current() == second
            with sinks.diverted(None):
                assert sinks.current() is None
        assert sinks.current() == first
    assert sinks.current() is None


def test_blocks_may_be_left_in_any_order():
    first, second = (lambda pushes: None), (lambda pushes: None)
    one, two = sinks.diverted(first), sinks.diverted(second)
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert sinks.current() is second
    two.__exit__(None, None, None)
    assert sinks.current() is None
