"""A pipe that ends a sleep."""

from __future__ import annotations

import select

from offsider.runtime.service import WakePipe


def test_an_end_wakes_watchers_and_applies_to_later_sleeps():
    pipe = WakePipe()
    watched = pipe.open()
    assert watched is not None
    assert pipe.open() == watched
    assert not select.select([watched], [], [], 0)[0]
    pipe.end()
    assert select.select([watched], [], [], 5)[0]
    assert pipe.open() is None
    pipe.close()


def test_an_end_before_the_first_sleep_applies_too():
    pipe = WakePipe()
    pipe.end()
    assert pipe.open() is None
    pipe.close()
    pipe.close()
    pipe.end()
