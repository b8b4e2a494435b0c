"""Warnings that a process logs once, from any thread."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from offsider.core import wording
from offsider.core.wording import MAX_REMEMBERED, first_time


@pytest.fixture(autouse=True)
def nothing_seen(monkeypatch):
    monkeypatch.setattr(wording, "_seen", {})


def test_only_the_first_question_about_a_thing_is_the_first():
    assert [first_time("a", "b"), first_time("a", "b"), first_time("a", "c"), first_time("ab")] == [
        True,
        False,
        True,
        True,
    ]


def test_of_many_threads_one_is_the_first():
    threads, before = 8, sys.getswitchinterval()
    barrier = Barrier(threads)

    def ask(number):
        barrier.wait()
        return [first_time("x", str(question)) for question in range(MAX_REMEMBERED)]

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            answers = list(pool.map(ask, range(threads)))
    finally:
        sys.setswitchinterval(before)
    assert [sum(question) for question in zip(*answers, strict=True)] == [1] * MAX_REMEMBERED


def test_of_endless_things_the_memory_is_bounded():
    assert all(first_time(str(number)) for number in range(3 * MAX_REMEMBERED + 1))
    assert len(wording._seen) <= MAX_REMEMBERED
