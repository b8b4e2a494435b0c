"""Values that are read once for all callers, and slots for requests to one server."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.screens.counters import TtlCache
from offsider.web import app
from offsider.web.app import Bulkhead
from offsider.web.results import Crowded
from tests.threads import together


def test_the_value_is_read_once_for_many_callers():
    reads = []
    fresh = TtlCache(lambda: reads.append(1) or len(reads), seconds=60)
    answers = []
    together(*[lambda: answers.append(fresh.get()) for _ in range(8)])
    assert answers == [1] * 8
    assert reads == [1]


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


def config(size):
    made = Config()
    made.redis.client_pool_size = size
    return made


def test_a_server_has_a_slot_per_connection_and_uses_no_others(monkeypatch):
    monkeypatch.setattr(app, "TIMEOUT_SECONDS", 0.01)
    kept = Bulkhead({"a": Installation.of(config(2)), "b": Installation.of(config(1))})
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(kept.slot("a"))
        with pytest.raises(Crowded, match="Too many requests are waiting for this server"):
            stack.enter_context(kept.slot("a"))
        stack.enter_context(kept.slot("b"))
    with kept.slot("a"):
        pass


def test_a_failing_page_frees_its_slot():
    kept = Bulkhead({"a": Installation.of(config(1)), "b": Installation.of(config(1))})
    for _ in range(3):
        with pytest.raises(KeyError), kept.slot("a"):
            raise KeyError


def test_a_single_server_has_no_limit():
    kept = Bulkhead({"a": Installation.of(config(1))})
    with kept.slot("a"), kept.slot("a"):
        pass
