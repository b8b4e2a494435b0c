"""The tab Queues."""

from __future__ import annotations

import pytest

from offsider.cli.top.tabs import Queues, View
from offsider.config.config import Config
from offsider.config.installation import Installation
from tests.redis.inspector.examined import push, register


@pytest.fixture
def queues(redis_url):
    config = Config()
    config.redis.url = redis_url
    return Queues(Installation.of(config))


def test_queues_are_sorted_by_name_with_their_state(queues, raw_redis):
    register(raw_redis, queues=["a", "b"])
    for queue in ("c", "b", "a"):
        push(raw_redis, "A", queue=queue)
    raw_redis.sadd("paused", "b")
    states = [(row.cells[0], row.cells[1], row.cells[3]) for row in queues.read(View()).rows]
    assert states == [("a", "1", ""), ("b", "1", "paused"), ("c", "1", "no worker")]


def test_one_key_pauses_and_unpauses(queues, raw_redis):
    assert queues.actions["p"].act("mail")
    assert raw_redis.smembers("paused") == {b"mail"}
    assert queues.actions["p"].act("mail")
    assert not raw_redis.exists("paused")


def test_clearing_asks_and_deletes(queues, raw_redis):
    push(raw_redis, "A")
    assert queues.actions["D"].asks
    assert queues.actions["D"].act("default")
    assert not raw_redis.keys()
