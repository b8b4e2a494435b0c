"""Producers note what the server acknowledged, and stop when they are told."""

import pytest

from offsider.cli.demo import producers as module
from offsider.cli.demo.ledger import Ledger, LedgerReader
from offsider.cli.demo.library import Library
from offsider.cli.demo.producers import Producers
from offsider.cli.demo.stored import other_keys
from offsider.client import Client
from offsider.wiring.config import Config
from tests.waiting import wait_for


@pytest.fixture
def play(redis_url, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(module, "POISON_EVERY_SECONDS", 0.02)
    config = Config()
    config.redis.url = redis_url
    library = Library(tmp_path)
    library.fill()
    happened = []

    def go(until, *, waiting: int = 0):
        client = Client(config)
        looks = []

        def look() -> int:
            looks.append(waiting)
            return waiting

        producers = Producers(client, Ledger(tmp_path), library, waiting=look, happened=happened.append)
        producers.start()
        wait_for(lambda: until(looks, happened))
        producers.stop()
        client.close()
        return config, list(LedgerReader(tmp_path).news()), happened

    return go


def test_the_ledger_knows_exactly_what_is_stored(play):
    config, lines, happened = play(lambda looks, happened: happened)

    assert {line.word for line in lines} == {"pushed"}
    assert {line.name for line in lines} == {"sum_up", "print_cover", "count_words", "poison"}
    assert {line.key for line in lines} == other_keys(config)
    assert any("no job" in what for what in happened)


def test_producers_wait_while_enough_is_waiting(play):
    _, lines, _ = play(lambda looks, _: len(looks) > 10, waiting=module.ENOUGH_WAITING + 1)

    assert not lines
