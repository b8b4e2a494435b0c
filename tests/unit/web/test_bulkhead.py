"""A server that hangs leaves threads for the others."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.web import app
from offsider.web.app import Bulkhead
from offsider.web.results import Crowded


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
