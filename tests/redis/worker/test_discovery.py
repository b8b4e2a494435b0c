"""A capsule that serves every queue finds new ones, and registers them first."""

from __future__ import annotations

import json
import threading

import pytest

from offsider.core.errors import RedisRefused
from offsider.storage import queues
from offsider.worker import discovery as discovery_module
from offsider.worker.discovery import PAUSE_SECONDS, Discovery
from tests.redis.worker.conftest import Parts
from tests.waiting import wait_for


def discovery(config) -> tuple[Discovery, Parts]:
    parts = Parts(config, ("first", "*"))
    parts.ownership._queues["default"] = list(parts.capsule.queues)
    return Discovery(config, parts.redis, parts.ownership, [parts.capsule], {"default": parts.fetcher.wake}), parts


def test_new_queues_are_registered_and_then_served(worker_config, raw_redis):
    finder, parts = discovery(worker_config)
    raw_redis.sadd("queues", "first", "new", b"\xff")
    assert finder.tick() == PAUSE_SECONDS <= 10
    assert parts.capsule.queues == ["first", "new"]
    assert json.loads(raw_redis.hget("offsider:owners", parts.ownership.identity)) == {"default": ["first", "new"]}
    raw_redis.lpush("queue:new", "job")
    assert parts.fetcher.retrieve().raw == b"job"
    parts.close()


def test_a_waiting_thread_also_waits_on_a_new_queue(worker_config, raw_redis):
    finder, parts = discovery(worker_config)
    units = []
    waiting = threading.Thread(target=lambda: units.append(parts.fetcher.retrieve()))
    waiting.start()
    wait_for(lambda: parts.fetcher._wait.pops.waiting)
    raw_redis.sadd("queues", "new")
    finder.tick()
    wait_for(lambda: "new" in [pop.queue for pop in parts.fetcher._wait.pops.waiting])
    raw_redis.lpush("queue:new", "job")
    waiting.join(10)
    assert [(unit.queue, unit.raw) for unit in units] == [("new", b"job")]
    parts.close()


def test_an_unregistered_queue_is_not_served(proxied_config, proxy, raw_redis):
    finder, parts = discovery(proxied_config)
    finder.tick()
    raw_redis.sadd("queues", "new")
    proxy.lose_request(b"offsider:owners")
    finder.tick()
    assert parts.capsule.queues == ["first"]
    assert [reported["context"] for _, reported in parts.errors] == ["discovery of queues"]
    finder.tick()
    assert parts.capsule.queues == ["first", "new"]
    assert raw_redis.hget("offsider:owners", parts.ownership.identity) == b'{"default": ["first", "new"]}'
    parts.close()


def test_a_round_searches_for_a_time_budget(worker_config, raw_redis, monkeypatch):
    monkeypatch.setattr(discovery_module, "SEARCH_SECONDS", 60)
    finder, parts = discovery(worker_config)
    monkeypatch.setattr(queues, "SCANNED", 1)
    raw_redis.mset({f"cache:{n}": "" for n in range(200)})
    raw_redis.lpush("queue:ghost", b'{"class":"Any","args":[]}')
    finder.tick()
    assert parts.capsule.queues == ["first", "ghost"]
    monkeypatch.setattr(discovery_module, "SEARCH_SECONDS", 0)
    raw_redis.lpush("queue:later", b'{"class":"Any","args":[]}')
    wait_for(lambda: finder.tick() and "later" in parts.capsule.queues)
    parts.close()


@pytest.mark.parametrize("forbidden", ["scan", "sadd"])
def test_a_server_that_forbids_the_search_or_the_registration_serves_known_queues(
    worker_config, raw_redis, monkeypatch, forbidden
):
    finder, parts = discovery(worker_config)
    raw_redis.lpush("queue:ghost", b'{"class":"Any","args":[]}')
    raw_redis.sadd("queues", "new")

    def refuse(*_):
        raise RedisRefused("this user has no permissions", code="NOPERM")

    monkeypatch.setattr(queues, {"scan": "find_unregistered", "sadd": "register"}[forbidden], refuse)
    finder.tick()
    finder.tick()
    assert parts.capsule.queues == ["first", "new"]
    assert parts.errors == []
    parts.close()
