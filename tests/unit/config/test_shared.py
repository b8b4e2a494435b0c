"""One object of a kind, made at first use."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from offsider.config.containers import Shared


class One:
    pass


class Two:
    def __init__(self, one: One) -> None:
        self.one = one


def test_each_kind_is_made_once():
    kept = Shared()
    assert kept.peek(One) is None
    one = kept.get(One, One)
    assert kept.get(One, One) is one
    assert kept.peek(One) is one
    assert kept.get(Two, lambda: Two(kept.get(One, One))).one is one


def test_a_shared_object_may_create_one_of_another_kind():
    kept = Shared()
    two = kept.get(Two, lambda: Two(kept.get(One, One)))
    assert two.one is kept.peek(One)


class Noticed:
    """A lock that records the threads that wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.contested = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.contested.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_concurrent_threads_get_the_same_object(monkeypatch):
    kept, lock, made = Shared(), Noticed(), []
    monkeypatch.setattr(kept, "_lock", lock)

    def make() -> One:
        second.append(threads.submit(kept.get, One, make))
        assert lock.contested.wait(20)
        made.append(One())
        return made[-1]

    second = []
    with ThreadPoolExecutor(1) as threads:
        first = kept.get(One, make)
    assert [first] == made == [second[0].result()]
