"""A closed list cannot be changed by any door."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from offsider.config.containers import Listing, Shared
from offsider.core.errors import ConfigurationError


@pytest.mark.parametrize(
    "edit",
    [
        lambda listing: listing.append(3),
        lambda listing: listing.insert(0, 3),
        lambda listing: listing.extend([3]),
        lambda listing: listing.remove(1),
        lambda listing: listing.clear(),
        lambda listing: listing.pop(),
        lambda listing: listing.reverse(),
        lambda listing: listing.__setitem__(0, 3),
        lambda listing: listing.__delitem__(0),
        lambda listing: listing.__iadd__([3]),
        lambda listing: listing.__imul__(2),
        lambda listing: listing.sort(),
    ],
)
def test_after_the_freeze_every_edit_is_refused_by_name(edit):
    listing = Listing("config.things")
    listing.append(1)
    listing += [2]
    listing.freeze()
    with pytest.raises(ConfigurationError, match=r"config\.things is frozen"):
        edit(listing)
    assert listing == [1, 2]


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
