"""A server that hangs leaves threads for the others."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from offsider.web import turns
from offsider.web.answers import Crowded
from offsider.web.turns import Turns
from offsider.wiring.config import Config


def config(size):
    made = Config()
    made.redis.client_pool_size = size
    return made


def test_a_server_has_as_many_turns_as_connections_and_takes_none_of_the_others(monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 0.01)
    kept = Turns({"a": config(2), "b": config(1)})
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(kept.turn("a"))
        with pytest.raises(Crowded, match="Too many requests wait for this server"):
            stack.enter_context(kept.turn("a"))
        stack.enter_context(kept.turn("b"))
    with kept.turn("a"):
        pass


def test_a_turn_ends_when_its_page_fails():
    kept = Turns({"a": config(1), "b": config(1)})
    for _ in range(3):
        with pytest.raises(KeyError), kept.turn("a"):
            raise KeyError


def test_a_single_server_needs_no_turns():
    kept = Turns({"a": config(1)})
    with kept.turn("a"), kept.turn("a"):
        pass
