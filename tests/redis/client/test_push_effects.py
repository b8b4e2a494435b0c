"""Effects of a push: with which pushes, how often, and in which step."""

from __future__ import annotations

import asyncio

import pytest

from offsider.client import Client
from offsider.core.errors import QueueFull, RedisRefused
from offsider.ext.unique import Unique
from offsider.inspector import Queue, ScheduledSet
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.effects import Effect
from offsider.storage.scripts import Script

NOTE = Script("note", source="#!lua\nreturn redis.call('RPUSH', KEYS[1], ARGV[1])\n")


class Members:
    """Notes the jid of each job that has a colour."""

    def __init__(self):
        self.asked = []

    def concerns(self, push):
        return "colour" in push.payload

    def effects(self, push, at):
        self.asked.append((push.payload["jid"], at))
        return [Effect(NOTE, [f"{DEFAULT_PREFIX}members:{push.payload['colour']}"], [push.payload["jid"]])]


@pytest.fixture
def members():
    return Members()


@pytest.fixture
def config(config, members):
    config.push_effects.append(members)
    return config


@pytest.fixture
def client(config):
    return Client(config)


def noted(raw_redis, colour="red"):
    return [jid.decode() for jid in raw_redis.lrange(f"{DEFAULT_PREFIX}members:{colour}", 0, -1)]


RED = {"class": "X", "args": [], "colour": "red"}


def test_a_job_is_stored_together_with_its_effect(client, config, raw_redis):
    jid = client.push(RED)
    assert noted(raw_redis) == [jid]
    assert [job.jid for job in Queue("default", config)] == [jid]
    assert raw_redis.smembers("queues") == {b"default"}


def test_the_effect_of_a_scheduled_job_runs_when_it_is_stored(client, config, members, raw_redis):
    jid = client.push({**RED, "at": 4_102_444_800})
    assert (noted(raw_redis), members.asked) == ([jid], [(jid, 4_102_444_800)])
    (stored,) = ScheduledSet(config)
    assert stored.at == 4_102_444_800
    client.reenqueue(stored.payload, "schedule")
    assert len(members.asked) == 1


def test_each_job_of_a_bulk_push_has_its_own(client, config, raw_redis):
    jids = client.push_bulk({**RED, "args": [[n] for n in range(250)]})
    assert noted(raw_redis) == jids
    assert [job.args for job in Queue("default", config)] == [[n] for n in range(250)]


def test_jobs_can_share_an_effect_that_gets_the_jid_of_each(client, config, members, monkeypatch, raw_redis):
    shared = [Effect(NOTE, [f"{DEFAULT_PREFIX}members:red"], None)]
    monkeypatch.setattr(members, "effects", lambda push, at: shared)
    jids = [client.push(RED), *client.push_bulk({**RED, "args": [[n] for n in range(3)]})]
    assert noted(raw_redis) == jids


def test_a_bulk_push_without_effects_asks_once(client, members, monkeypatch):
    asked = []
    monkeypatch.setattr(members, "concerns", lambda push: bool(asked.append(1)))
    client.push_bulk({"class": "X", "args": [[n] for n in range(250)]})
    assert len(asked) <= 2


def test_an_async_push_has_them_too(config, raw_redis):
    async def push():
        client = Client(config)
        try:
            return await client.apush(RED)
        finally:
            client.close()

    jid = asyncio.run(push())
    assert noted(raw_redis) == [jid]


def test_a_duplicate_that_the_push_guard_refuses_has_none(config, raw_redis):
    config.use(Unique())
    client = Client(config)
    unique = {**RED, "unique_for": 60}
    jid = client.push(unique)
    assert not client.push(unique)
    assert not client.push_bulk({**unique, "args": [[], [1]]})[0]
    assert noted(raw_redis)[0] == jid
    assert len(noted(raw_redis)) == len(Queue("default", config)) == 2


def test_a_queue_that_refuses_a_job_gives_it_no_effect(client, raw_redis):
    raw_redis.set("queue:default", "no list")
    with pytest.raises(RedisRefused, match="WRONGTYPE"):
        client.push(RED)
    assert noted(raw_redis) == []


def test_an_effect_that_fails_is_logged_and_the_job_is_stored(client, members, raw_redis, caplog, monkeypatch):
    raw_redis.set(f"{DEFAULT_PREFIX}members:red", "no list")

    def both(push, at):
        return [
            Effect(NOTE, [f"{DEFAULT_PREFIX}members:{colour}"], [push.payload["jid"]]) for colour in ("red", "blue")
        ]

    monkeypatch.setattr(members, "effects", both)
    jid = client.push(RED)
    assert len(Queue("default", client.config)) == 1
    assert noted(raw_redis, "blue") == [jid], "the other effect has run"
    (record,) = caplog.records
    assert "the job is stored, but a follow-up write of its push failed: note: WRONGTYPE" in record.getMessage()


def test_a_job_without_effects_is_stored_normally(client, config, members, raw_redis):
    client.push({"class": "X", "args": []})  # the first push makes the client known
    commands = []
    with raw_redis.monitor() as monitor:
        client.push({"class": "X", "args": []})
        client.push_bulk({"class": "X", "args": [[1], [2]]})
        raw_redis.echo("end")
        while not commands or commands[-1] != "ECHO":
            commands.append(monitor.next_command()["command"].split()[0].upper())
    assert [name for name in commands if name in ("LPUSH", "EVAL", "EVALSHA")] == ["LPUSH", "LPUSH"]
    assert (members.asked, len(Queue("default", config))) == ([], 4)


def test_a_full_server_refuses_the_job_and_its_effect(client, raw_redis):
    raw_redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(QueueFull):
            client.push(RED)
    finally:
        raw_redis.config_set("maxmemory", 0)
    assert noted(raw_redis) == []
