"""What is read once for all who look."""

from __future__ import annotations

import threading

import pytest

from offsider.web.counters import TtlCache


def test_the_value_is_read_once_for_many_callers():
    reads = []
    fresh = TtlCache(lambda: reads.append(1) or len(reads), seconds=60)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(fresh.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1] * 8
    assert reads == [1]


def test_an_expired_value_is_read_again():
    reads = []
    fresh = TtlCache(lambda: reads.append(1) or len(reads), seconds=0)
    assert [fresh.get(), fresh.get()] == [1, 2]


def test_a_forgotten_value_is_read_again():
    reads = []
    fresh = TtlCache(lambda: reads.append(1) or len(reads), seconds=60)
    assert fresh.get() == 1
    fresh.forget()
    assert [fresh.get(), fresh.get()] == [2, 2]


def test_an_error_is_cached_too():
    reads = []

    def fail():
        reads.append(1)
        raise OSError("no answer")

    fresh = TtlCache(fail, seconds=60)
    for _ in range(2):
        with pytest.raises(OSError, match="no answer"):
            fresh.get()
    assert reads == [1]
