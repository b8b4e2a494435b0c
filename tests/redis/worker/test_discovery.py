"""A capsule that serves every queue finds new ones, and registers them first."""

from __future__ import annotations

import json
import logging
import shlex
import threading

import pytest

from offsider import job
from offsider.config.config import Config
from offsider.config.routing import QueueSpec
from offsider.core.errors import RedisRefused
from offsider.jobs import registry
from offsider.jobs.routes import unserved_on_server
from offsider.storage import queues
from offsider.worker import served_queues as discovery_module
from offsider.worker.served_queues import PAUSE_SECONDS, Discovery, log_unserved
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


@pytest.fixture(autouse=True)
def declared(declared) -> None:
    registry._jobs.clear()  # modules of other tests declare some when they are imported

    @job(name="Mail", queue="mail")
    def mail() -> None: ...

    @job(name="Plain")
    def plain() -> None: ...


def logged(config, caplog):
    with caplog.at_level(logging.INFO, "offsider"):
        log_unserved(config)
    return [(record.levelname, record.getMessage()) for record in caplog.records]


LINE = "this worker does not serve mail (Mail); if no other worker does, start it with -q {} -q mail"


def test_unserved_queues_are_named_at_the_start(worker_config, caplog):
    worker_config.worker.queues = ["default"]
    assert logged(worker_config, caplog) == [("INFO", LINE.format("default"))]


def test_proposed_options_serve_any_name(worker_config, caplog):
    names = ["a b; reboot", "-x", "a,b"]
    for name in names:
        job(name=name, queue=name)(len)
    worker_config.worker.queues = ["mail", "default"]
    ((_, line),) = logged(worker_config, caplog)
    options = shlex.split(line.partition("start it with")[2])
    assert options[::2] == ["-q"] * 5
    assert sorted(QueueSpec.parse(option).name for option in options[1::2]) == sorted(["mail", "default", *names])


@pytest.mark.parametrize("queues", [["mail", "default"], ["*"]])
def test_nothing_is_logged_if_it_serves_all(worker_config, caplog, queues):
    worker_config.worker.queues = queues
    assert logged(worker_config, caplog) == []


@pytest.mark.parametrize(
    "text",
    [
        '[shards.mails]\nqueues = ["mail"]',
        '[servers.bulk]\nurl = "redis://bulk"\n[routing]\nrules = [["name=Mail", "mail", "bulk"], ["*", "default"]]',
    ],
)
def test_shards_and_other_servers_do_not_count(tmp_path, text):
    (tmp_path / "offsider.toml").write_text(text)
    assert unserved_on_server(Config.load(tmp_path / "offsider.toml", environ={})) == []
