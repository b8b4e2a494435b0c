"""One object of a kind, made at first use."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from offsider.wiring.kept import Kept


class One:
    pass


class Two:
    def __init__(self, one: One) -> None:
        self.one = one


def test_each_kind_is_made_once():
    kept = Kept()
    assert kept.peek(One) is None
    one = kept.get(One, One)
    assert kept.get(One, One) is one
    assert kept.peek(One) is one
    assert kept.get(Two, lambda: Two(kept.get(One, One))).one is one


def test_what_is_made_may_ask_for_another_kind():
    kept = Kept()
    two = kept.get(Two, lambda: Two(kept.get(One, One)))
    assert two.one is kept.peek(One)


def test_threads_that_ask_at_once_get_the_same_one():
    kept, begin, made = Kept(), threading.Barrier(8), []

    def make() -> One:
        made.append(One())
        return made[-1]

    def ask(_number: int) -> One:
        begin.wait()
        return kept.get(One, make)

    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(ask, range(8)))
    assert found == set(made)
    assert len(made) == 1
